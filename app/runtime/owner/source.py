"""The files that a session's first run gets from its source."""

from __future__ import annotations

from app.errors import PalimpsestError, StaleOwnerError, StorageError, SupersededError
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.state import SessionState
from app.runtime.sources import Sources
from app.runtime.transactions import sources as transactions
from app.runtime.values.sessions import GitSource


async def bring(sources: Sources, session: SessionState, recorder: Recorder) -> None:
    """Clones a source that is due, with its events. Raises the error that `source.failed` shows; a clone that is ended
    from outside has no such event."""
    git = GitSource.model_validate(session.row.source["git"])
    await recorder.submit(lambda c: transactions.started(c, session.id, recorder.epoch, git))
    try:
        commit = await sources.bring(session.id, git, session.sandbox)
    except (StaleOwnerError, SupersededError, StorageError):
        raise
    except PalimpsestError as error:
        failure = error
        await recorder.submit(lambda c: transactions.failed(c, session.id, recorder.epoch, failure))
        raise
    await recorder.submit(lambda c: transactions.completed(c, session.id, recorder.epoch, commit))
    await session.read()
