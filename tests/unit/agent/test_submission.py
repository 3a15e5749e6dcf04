"""A run that has to submit its output, as its history tells after a restart."""

from __future__ import annotations

from app.agent.submission import MAX_TRIES, invalid_output, is_submitted, missing_output
from app.context.prompts import control_text
from app.messages import Message, ToolStatus
from app.sessions import Outcome
from tests.unit.agent.scenes import config, says
from tests.unit.agent.test_loop import Session, ended
from tests.unit.context import builders as b


def submission(seq: int, status: ToolStatus) -> list[Message]:
    result = b.result("c", "[accepted]" if status is ToolStatus.COMPLETED else "$.a: no", name="submit_output")
    return [
        b.assistant(seq, b.call("c", "submit_output", "{}")),
        b.tool(seq + 1, result.model_copy(update={"status": status})),
    ]


def test_only_the_newest_message_can_be_the_submission() -> None:
    accepted = [b.user(1), *submission(2, ToolStatus.COMPLETED)]
    assert is_submitted(accepted)
    assert not is_submitted([*accepted, b.user(4)])
    assert not is_submitted([b.user(1), *submission(2, ToolStatus.ERROR)])
    assert not is_submitted([b.user(1), *b.step(2, "c")])


def test_tries_and_requests_count_since_the_last_input() -> None:
    tries = [m for n in range(MAX_TRIES) for m in submission(2 + 2 * n, ToolStatus.ERROR)]
    error = invalid_output([b.user(1), *tries])
    assert error is not None
    assert (error.code, "$.a: no" in error.detail) == ("output_invalid", True)
    assert invalid_output([b.user(1), *tries[:-2]]) is None
    assert invalid_output([*tries, b.control(9, control_text("resume"))]) is None

    asked = [b.user(1), b.assistant(2, b.text()), b.control(3, control_text("submit_output"))]
    assert missing_output([*asked, b.assistant(4, b.text())]) is not None
    assert missing_output(asked[:2]) is None
    assert missing_output([*asked, b.user(4), b.assistant(5, b.text())]) is None


async def test_a_run_whose_output_was_accepted_before_a_restart_makes_no_step() -> None:
    session = Session(says(), history=(b.user(1), *submission(2, ToolStatus.COMPLETED)))
    result = await session.run(settings=lambda: config(has_output=True), continues=True)
    assert result == ended(Outcome.COMPLETED)
    assert session.script.requests == []
