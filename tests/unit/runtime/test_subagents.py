"""Sub-agents in the database: what ends with their call, and what they may still use."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, Row

from app.agent.changes import CallsAwaited, CallsHeld
from app.db.repositories import checkpoints, client_calls, sessions, steps
from app.db.repositories.checkpoints import StoredCheckpoint
from app.errors import ConflictError
from app.eventlog.log import Appender, StreamItem
from app.messages import FinishReason, Usage, new_id, now
from app.runtime.admission import Draft
from app.runtime.incoming import IncomingArchives
from app.runtime.services.checkpoints import CheckpointService
from app.runtime.services.files import FileService
from app.runtime.transactions import claims, recovery, runs, subagents
from app.runtime.transactions.client_calls import pending
from app.runtime.transactions.steps import Totals, totals
from app.sessions import Limits, Outcome, SessionKind, Status
from tests.unit.db.rows import add_session
from tests.unit.runtime.stage import (
    GENERATION_OPENED,
    USAGE,
    Attempt,
    Stage,
    Transaction,
    call_part,
    make_sandboxes,
    make_setup,
)


async def delegated(stage: Stage, count: int = 1) -> list[Stage]:
    """A session whose calls of `delegate` wait for sub-agents, which are running; returns those."""
    await stage.post("task")
    await stage.commit(GENERATION_OPENED)
    attempt, calls = Attempt(), [call_part(index, "delegate") for index in range(count)]
    await stage.commit(attempt.opened, *attempt.wrote(*calls))
    await stage.commit(attempt.answered(FinishReason.TOOL_CALLS))
    await stage.commit(CallsAwaited(attempt.message_id, tuple((call, None) for call in calls)))
    waits = await stage.database.read(lambda c: client_calls.open_ones(c, stage.session_id))
    children = []
    for wait in waits:
        fields = {"id": wait.child_id, "kind": SessionKind.SUBAGENT, "parent_id": stage.session_id}
        await stage.write(partial(add_session, **fields))
        child = Stage(stage.database, wait.child_id, stage.path)
        await child.post("its task")
        children.append(child)
    return children


def _no_draft(wait: Row[Any]) -> Draft:
    raise AssertionError(f"{wait.call_id} has its sub-agent")


async def _totals(stage: Stage) -> Totals:
    return await stage.database.read(lambda c: totals(c, stage.session_id))


async def test_a_session_that_only_waits_for_sub_agents_is_running(stage: Stage) -> None:
    (child,) = await delegated(stage)
    assert (await stage.row()).status == Status.RUNNING
    assert (await stage.database.read(lambda c: pending(c, stage.session_id))).items == ()
    await child.change(status=Status.AWAITING_APPROVAL)
    result = await stage.act(lambda c: recovery.recover(c, stage.session_id, 0))
    assert result is None, "it waits on"


async def test_a_sub_agent_whose_call_no_longer_waits_is_cancelled_when_it_is_claimed(stage: Stage) -> None:
    """A server may crash between the end of the wait and the cancel."""
    wanted, unwanted = await delegated(stage, 2)
    calls = await stage.database.read(lambda c: client_calls.open_ones(c, stage.session_id))
    await stage.write(lambda c: client_calls.end(c, stage.session_id, [calls[1].call_id], "cancel", now()))
    for child, cancelled in ((wanted, False), (unwanted, True)):
        row = await child.act(partial(claims.claim, session_id=child.session_id))
        assert row is not None
        assert (row.cancel_requested, (await child.row()).cancel_requested) == (cancelled, cancelled)


async def test_a_parked_run_does_not_wait_for_sub_agents(stage: Stage) -> None:
    await delegated(stage)
    epoch = await stage.claim()
    result = await stage.act(lambda c: recovery.recover(c, stage.session_id, epoch, parks=True))
    assert result is not None
    assert result.outcome is Outcome.INTERRUPTED
    assert await stage.database.read(lambda c: client_calls.count_open(c, stage.session_id)) == 0


async def test_a_crashed_run_waits_no_longer(stage: Stage) -> None:
    (child,) = await delegated(stage)
    epoch = await stage.claim()
    crashed = recovery.parked()
    await stage.act(lambda c: runs.finish(c, stage.session_id, epoch, crashed))
    assert not await stage.database.read(lambda c: client_calls.is_awaited(c, stage.session_id, child.session_id))


async def test_the_next_owner_ends_the_approvals_that_the_log_shows(stage: Stage) -> None:
    """They may be decided, or time out, before it looks at its sub-agents."""
    one, two = await delegated(stage, 2)
    for child in (one, two):
        attempt, call = Attempt(), call_part()
        await child.commit(GENERATION_OPENED, attempt.opened, *attempt.wrote(call))
        await child.commit(attempt.answered(FinishReason.TOOL_CALLS), CallsHeld(attempt.message_id, (call,), 60))

    def settled(known: subagents.Known) -> Transaction[None]:
        def work(connection: Connection) -> tuple[None, list[StreamItem]]:
            appender = Appender(connection, stage.session_id)
            waits = client_calls.open_ones(connection, stage.session_id)
            subagents.settle(connection, appender, waits, _no_draft, known)
            return None, appender.flush()

        return work

    def denied(connection: Connection) -> tuple[None, list[StreamItem]]:
        appender = Appender(connection, one.session_id)
        runs.resolve_approvals(
            connection, appender, steps.open_approvals(connection, one.session_id), "deny", "timeout"
        )
        return None, appender.flush()

    await stage.act(settled(subagents.Known()))
    await one.act(denied)
    await one.change(status=Status.IDLE, outcome=Outcome.COMPLETED)
    await stage.act(settled(subagents.Known()))
    epoch = await stage.claim()
    await stage.act(lambda c: runs.finish(c, stage.session_id, epoch, recovery.parked()))
    shown = [each for each in await stage.log() if each.type.startswith("approval.")]
    assert [(each.data.get("decision"), each.data["subagent_id"]) for each in shown] == [
        (None, one.session_id),
        (None, two.session_id),
        ("deny", one.session_id),
        ("cancelled", two.session_id),
    ]


async def test_usage_counts_once_for_both_and_limits_are_shared(stage: Stage) -> None:
    limits = Limits(max_tokens=100, max_cost_usd=1.0)
    await stage.change(limits=limits.model_dump())
    one, two = await delegated(stage, 2)
    await one.commit(GENERATION_OPENED, *Attempt().whole())
    used = USAGE.total_tokens
    assert Usage(**(await stage.row()).usage) == Usage(**(await one.row()).usage) == USAGE
    left = [await _totals(child) for child in (one, two)]
    assert [(each.limits.max_tokens, each.limits.max_cost_usd) for each in left] == [(100, 1.0), (100 - used, 0.75)]
    of_parent = await _totals(stage)
    assert (of_parent.usage, of_parent.limits) == (USAGE, limits)

    unpriced = Attempt(usage=Usage(input_tokens=1000))
    await two.commit(GENERATION_OPENED, *unpriced.whole())
    for session in (stage, one, two):
        found = await _totals(session)
        assert found.cost_usd == (0 if session is two else pytest.approx(0.25)), "the part with a known price"
    assert (await _totals(two)).limits.max_tokens == 1000 + 100 - 1017


async def test_they_go_with_their_parent_and_are_not_listed(stage: Stage) -> None:
    (child,) = await delegated(stage)
    await child.change(status=Status.IDLE)
    await stage.change(status=Status.IDLE)
    later = now() + timedelta(days=1)
    assert await stage.database.read(lambda c: sessions.old_sessions(c, later, 10)) == [stage.session_id]
    assert await stage.database.read(lambda c: sessions.child_ids(c, stage.session_id)) == [child.session_id]
    listed, _ = await stage.database.read(lambda c: sessions.page(c, status=None, q=None, before=None, limit=9))
    assert [each.id for each in listed] == [stage.session_id]
    parent = stage.session_id
    listed, _ = await stage.database.read(
        lambda c: sessions.page(c, status=None, q=None, before=None, limit=9, parent_id=parent)
    )
    assert [(each.id, each.kind) for each in listed] == [(child.session_id, SessionKind.SUBAGENT)]


async def test_a_workspace_is_not_replaced_while_a_sub_agent_works_in_it(stage: Stage) -> None:
    (child,) = await delegated(stage)
    setup = make_setup(stage, make_sandboxes())
    files = FileService(setup, IncomingArchives(1000))
    await files.check_no_command(stage.session_id)
    attempt = Attempt()
    await child.commit(GENERATION_OPENED, attempt.opened, *attempt.wrote(call_part()))
    await child.commit(attempt.answered(FinishReason.TOOL_CALLS))
    with pytest.raises(ConflictError) as refused:
        await files.check_no_command(stage.session_id)
    assert refused.value.code == "command_running"

    saved = StoredCheckpoint(stage.session_id, new_id(), now(), 1, "run_started", None, 0, 0, None, "tree")
    await stage.write(lambda c: checkpoints.add(c, saved))
    # As after a cancel, which the sub-agent gets later.
    await stage.change(status=Status.IDLE)
    with pytest.raises(ConflictError) as refused:
        await CheckpointService(setup, files).restore(stage.session_id, saved.id)
    assert refused.value.code == "session_running"
