"""Converts conversations from and to OpenAI's Chat Completions and Anthropic's Messages.

`import_history` makes Palimpsest messages from a conversation, repaired if necessary; `to_wire` writes messages in
either format. What one writes the other reads back, and then writes again byte for byte. Everything is a function of
values.
"""

from app.interchange.exporting import begun_by_user, is_told, to_wire
from app.interchange.importing import ImportedHistory, import_history
from app.interchange.paging import page_length, settled
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
