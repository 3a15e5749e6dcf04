"""How a session is claimed, owned while it has work, and given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import structlog
from sqlalchemy import Row

from app.agent.loop import RunResult
from app.db.repositories import sessions
from app.db.repositories.ownership import has_work
from app.errors import NotFoundError, PalimpsestError, StaleOwnerError, SupersededError
from app.runtime.dispatch import Started
from app.runtime.kept import Version
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.session import SessionOwner, finish
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import compactions
from app.sessions import Outcome, Status

log = structlog.get_logger(__name__)


async def own(
    setup: RuntimeSetup,
    session_id: str,
    resting: Callable[[bool], None],
    claimed: Callable[[SessionOwner], None],
    after: int | None = None,
    started: Started | None = None,
) -> bool:
    """Claims a session and, if it has work, owns it until it is idle, stopped with the server, or taken over; returns
    whether it is left with a requested compaction. `claimed` is called with its owner before that begins; for `resting`
    see `SessionOwner`. With `after`, it is only claimed if nobody has done so since it had this epoch; one that has
    `started` is claimed already."""
    leaves_round = False
    channel = setup.bus.channel(session_id)
    channel.running = True
    try:
        if started is not None:
            setup.note_claim(started.row)
        row = started.row if started is not None else await setup.claim(session_id, after)
        kept = None if row is None else setup.kept.take(session_id, _before(row, started))
        if row is not None and has_work(row):
            with setup.bus.owning(session_id, row.epoch):
                delivered, continued = (started.delivered, kept) if started is not None else ((), None)
                owner = SessionOwner(setup, row, resting, delivered, continued)
                claimed(owner)
                leaves_round = await owner.run()
                if owner.left is not None:
                    setup.kept.keep(session_id, owner.left)
        elif row is not None and kept is not None:
            # Woken for a message that the run before had delivered.
            setup.kept.keep(session_id, replace(kept, version=Version(row.epoch, row.last_seq)))
    except NotFoundError:
        if await _exists(setup, session_id):
            raise
        # By another node, which has taken it over for that.
        log.info("session_deleted_elsewhere", session_id=session_id)
    except (StaleOwnerError, SupersededError):
        setup.counts.refused += 1
        log.warning("session_taken_over", session_id=session_id)
    finally:
        channel.running = False
        channel.parts.clear()
        setup.bus.release(session_id)
    return leaves_round


async def _exists(setup: RuntimeSetup, session_id: str) -> bool:
    return await setup.database.read(lambda c: sessions.find(c, session_id)) is not None


def _before(claimed: Row[Any], started: Started | None) -> Version:
    """The version of a session before its claim, and before what was committed with that."""
    return Version(claimed.epoch - 1, claimed.last_seq) if started is None else started.before


async def give_up(setup: RuntimeSetup, session_id: str) -> None:
    """Ends a session's run and its compaction without reading its content, which crashed its owners."""
    row = await setup.claim(session_id)
    if row is None or not has_work(row):
        return
    recorder = Recorder(setup.database, setup.bus, session_id, row.epoch)
    try:
        await recorder.submit(lambda c: (None, compactions.abandon(c, session_id, row.epoch, manual_too=True)))
        if row.status != Status.IDLE:
            error = PalimpsestError("The run crashed repeatedly; see the server's log for details.")
            await finish(recorder, row, RunResult(Outcome.INTERRUPTED, error.problem()))
    finally:
        setup.bus.release(session_id)
