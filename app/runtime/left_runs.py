"""Interrupted runs: recovered and then read by the owner that continues them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row

from app.agent.batch import WaitingStep
from app.agent.interrupt import StopReason
from app.agent.loop import RunResult
from app.runtime import recovery
from app.runtime.agents import StoredConversation, load_conversation
from app.runtime.desk import ended_by, waiting_step
from app.runtime.left_outputs import left_outputs
from app.runtime.owned import OwnedSession
from app.runtime.recorder import Recorder
from app.runtime.setup import RuntimeSetup
from app.sessions import Outcome


async def put_in_order(
    setup: RuntimeSetup, session: OwnedSession, recorder: Recorder, claimed: Row[Any]
) -> tuple[RunResult | None, StoredConversation | None]:
    """Recovers the state left by the previous owner; returns a result if the run ends with that, and the conversation
    if nothing had to be changed. `claimed` is the session's row at the takeover."""

    def look(connection: Connection) -> StoredConversation | None:
        return None if recovery.is_needed(connection, claimed) else load_conversation(connection, session.id)

    stored = await setup.database.read(look)
    parks = session.id in setup.to_park
    setup.to_park.discard(session.id)
    if stored is not None:
        if claimed.cancel_requested:
            return RunResult(Outcome.CANCELLED), stored
        return recovery.parked() if parks else None, stored
    calls = await setup.database.read(lambda c: recovery.open_calls(c, session.id))
    outputs = await left_outputs(session.id, calls, setup.output_path)
    result = await recorder.submit(
        lambda c: recovery.recover(c, session.id, claimed.epoch, outputs=outputs, parks=parks)
    )
    await session.read()
    return result, None


def read(connection: Connection, row: Row[Any]) -> tuple[StoredConversation, WaitingStep | None, StopReason | None]:
    """The conversation; a step that is waiting for approval, and the reason to end it, if any."""
    return load_conversation(connection, row.id), waiting_step(connection, row), ended_by(connection, row)
