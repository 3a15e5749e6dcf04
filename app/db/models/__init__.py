"""The tables. Rows are read and written through SQLAlchemy Core by the repositories; Alembic makes them.

Times are integers, milliseconds since 1970 in UTC. JSON is text written by orjson. A session's rows carry its id, so
ids chosen by clients need to be unique only within a session.

Each module holds tables that are read together: `session`, `history`, `search`, `run`, `context`; tables that belong to
no session are in `server_wide`. Alembic compares `metadata` with the database, so every module with tables is imported
here.
"""

from app.db.models.base import Json, UtcTime, metadata
from app.db.models.context import compaction_events, generations
from app.db.models.history import message_parts, messages
from app.db.models.run import approvals, steps
from app.db.models.search import is_managed, search_entries, search_text
from app.db.models.server_wide import daily_usage, logins, model_quirks, model_windows, server
from app.db.models.session import events, queue, sessions

__all__ = [
    "Json",
    "UtcTime",
    "approvals",
    "compaction_events",
    "daily_usage",
    "events",
    "generations",
    "is_managed",
    "logins",
    "message_parts",
    "messages",
    "metadata",
    "model_quirks",
    "model_windows",
    "queue",
    "search_entries",
    "search_text",
    "server",
    "sessions",
    "steps",
]
