"""The workflow follows the histories of earlier versions: workflows that run during an upgrade are decided on by the
new code. A version that changes the order of its commands adds a history, and keeps the old ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from app.cluster.workflow import USUAL_EVENTS, SessionWorkflow

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))
"""Made with `temporal workflow show --workflow-id session-… --output json`."""


@pytest.mark.parametrize("history", [path.read_text() for path in HISTORIES], ids=[path.stem for path in HISTORIES])
async def test_an_earlier_history_is_followed(history: str) -> None:
    replayer = Replayer(workflows=[SessionWorkflow], workflow_runner=UnsandboxedWorkflowRunner())
    await replayer.replay_workflow(WorkflowHistory.from_json("session-1", history))


def test_the_histories_show_what_changed() -> None:
    """`messages_in_a_row` is longer than histories are since `SHORT_HISTORIES`."""
    assert {"tenure", "take_over", "messages_in_a_row"} <= {path.stem for path in HISTORIES}
    (long,) = (path for path in HISTORIES if path.stem == "messages_in_a_row")
    assert len(json.loads(long.read_text())["events"]) > 2 * USUAL_EVENTS
