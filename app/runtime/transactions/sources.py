"""The transactions around the clone of a session's source."""

from __future__ import annotations

from sqlalchemy import Connection

from app.db.repositories import sessions
from app.errors import PalimpsestError
from app.eventlog.log import Appender, StreamItem
from app.events import SourceCompleted, SourceFailed, SourceStarted
from app.runtime.values.sessions import GitSource


def started(connection: Connection, session_id: str, epoch: int, git: GitSource) -> tuple[None, list[StreamItem]]:
    appender = Appender(connection, session_id, epoch=epoch)
    appender.emit(SourceStarted, url=git.url, ref=git.ref)
    return None, appender.flush()


def completed(connection: Connection, session_id: str, epoch: int, commit: str) -> tuple[None, list[StreamItem]]:
    """Later runs do not clone again."""
    appender = Appender(connection, session_id, epoch=epoch)
    sessions.change(connection, session_id, source_commit=commit)
    appender.emit(SourceCompleted, commit=commit)
    return None, appender.flush()


def failed(
    connection: Connection, session_id: str, epoch: int, error: PalimpsestError
) -> tuple[None, list[StreamItem]]:
    appender = Appender(connection, session_id, epoch=epoch)
    appender.emit(SourceFailed, code=error.code, detail=error.detail)
    return None, appender.flush()
