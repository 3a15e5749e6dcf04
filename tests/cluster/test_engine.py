"""The workflow on a real Temporal server, with a worker whose owners only count."""

from __future__ import annotations

import asyncio

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.common import Priority
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from app.cluster import workflow
from app.cluster.engine import Engine, EngineAddress
from app.cluster.workflow import DRAINING, OWN, RING, SessionWorkflow, session_workflow_id
from app.messages import new_id
from scripts.servers.temporal import temporal
from tests.requirements import need

KEY = "key"


@pytest.fixture
def address() -> str:
    need("temporal")
    return temporal().address


async def _run(client: Client, own: object) -> WorkflowHandle[SessionWorkflow, None]:
    """A session's workflow, run to its end by a worker with this activity."""
    queue, session_id = new_id(), new_id()
    worker = Worker(
        client,
        task_queue=queue,
        workflows=[SessionWorkflow],
        activities=[own],  # type: ignore[list-item]
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_cached_workflows=0,
    )
    async with worker, asyncio.timeout(60):
        handle = await client.start_workflow(
            SessionWorkflow.run,
            session_id,
            id=session_workflow_id(session_id),
            task_queue=queue,
            start_signal=RING,
            priority=Priority(fairness_key=KEY),
        )
        await handle.result()
    return handle


@pytest.mark.parametrize("fails", [False, True])
async def test_a_long_history_begins_anew_and_goes_on(
    address: str, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """No tenure is lost on the way, and the code follows both histories again. While owners fail, histories may be
    longer."""
    monkeypatch.setattr(workflow, "USUAL_EVENTS", 10 if fails else 30)
    monkeypatch.setattr(workflow, "MOST_EVENTS", 30 if fails else 2_000)
    most = 5 if fails else 12
    owned = 0

    @activity.defn(name=OWN)
    async def own(_: str) -> bool:
        nonlocal owned
        owned += 1
        if fails and owned < most:
            raise ApplicationError("The database does not answer.")
        return owned < most

    client = await Client.connect(address)
    handle = await _run(client, own)
    assert owned == most
    first = await client.get_workflow_handle(handle.id, run_id=handle.first_execution_run_id).fetch_history()
    last = await client.get_workflow_handle(handle.id).fetch_history()
    assert first.events[-1].HasField("workflow_execution_continued_as_new_event_attributes")
    assert last.events[-1].HasField("workflow_execution_completed_event_attributes")
    assert 30 < len(first.events) < 60
    assert last.events[0].workflow_execution_started_event_attributes.priority.fairness_key == KEY
    replayer = Replayer(workflows=[SessionWorkflow], workflow_runner=UnsandboxedWorkflowRunner())
    for history in (first, last):
        await replayer.replay_workflow(history)


async def test_no_history_begins_anew_when_an_owner_is_lost(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new history takes a decision more, while the session waits for its next owner."""
    monkeypatch.setattr(workflow, "USUAL_EVENTS", 1)
    owned = 0

    @activity.defn(name=OWN)
    async def own(_: str) -> bool:
        nonlocal owned
        owned += 1
        if owned == 1:
            await asyncio.Event().wait()
        return False

    client = await Client.connect(address)
    handle = await _run(client, own)
    assert owned == 2
    history = await client.get_workflow_handle(handle.id, run_id=handle.first_execution_run_id).fetch_history()
    assert history.events[-1].HasField("workflow_execution_completed_event_attributes")


async def test_a_session_that_a_draining_worker_refuses_is_offered_again_at_once(address: str) -> None:
    """A timer would be in the history; the second refusal waits, in case that all workers stop."""
    offered = 0

    @activity.defn(name=OWN)
    async def own(_: str) -> bool:
        nonlocal offered
        offered += 1
        if offered in (1, 3, 4):
            raise ApplicationError("This node takes no more sessions.", type=DRAINING)
        return offered < 5

    client = await Client.connect(address)
    handle = await _run(client, own)
    history = await handle.fetch_history()
    assert offered == 5
    assert sum(event.HasField("timer_started_event_attributes") for event in history.events) == 1


async def test_an_engine_awaits_an_activity_until_it_has_ended(address: str) -> None:
    engine = await Engine.at(EngineAddress(address, "default", False, None, ""))
    tokens: list[bytes] = []
    awaited: list[bool] = []

    @activity.defn(name=OWN)
    async def own(_: str) -> bool:
        tokens.append(activity.info().task_token)
        awaited.append(await engine.awaits(tokens[0]))
        return False

    await _run(await Client.connect(address), own)
    assert awaited == [True]
    assert not await engine.awaits(tokens[0])
