"""Conversations from and to other formats, OpenAI's Chat Completions and Anthropic's Messages.

`import_history` makes messages out of a conversation, repaired where it is broken; `to_wire` writes a session's in
either format. What one writes the other reads back, and then writes again byte for byte. All of it is a function of
values.
"""

from app.interchange.exporting import begun_by_user, is_told, page_length, settled, to_wire
from app.interchange.importing import ImportedHistory, import_history
from app.interchange.turns import WireFormat

__all__ = [
    "ImportedHistory",
    "WireFormat",
    "begun_by_user",
    "import_history",
    "is_told",
    "page_length",
    "settled",
    "to_wire",
]
