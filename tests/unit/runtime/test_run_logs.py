"""The log of a session's runs: each line has the right context, and an outage is logged once."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from app.agent.loop import RunResult
from app.agent.step import LOGGED
from app.sessions import Outcome, QueueMode
from tests.unit.runtime.test_broken_runs import server as faulty
from tests.unit.runtime.test_registry import Server, server

__all__ = ["faulty", "server"]


async def test_a_run_s_lines_carry_its_session_and_no_step(server: Server) -> None:
    """Neither of the last step nor of the previous run."""
    with capture_logs(processors=[merge_contextvars]) as logs:
        server.model.hold()
        await server.post("one")
        await server.model.reached()
        await server.post("two", QueueMode.FOLLOW_UP)
        server.model.go()
        await server.idle()
        await server.gone()
    said = [line for line in logs if line["event"] in ("run_started", "run_ended")]
    assert [line["event"] for line in said] == ["run_started", "run_ended"] * 2
    assert {line["session_id"] for line in said} == {server.id}
    assert not any(line.keys() & {*LOGGED} for line in said)


@pytest.mark.parametrize(("code", "detail"), [("provider_overloaded", "odd answered 503."), ("output_invalid", None)])
def test_the_end_of_a_run_has_the_text_of_a_provider_alone(code: str, detail: str | None) -> None:
    result = RunResult(Outcome.FAILED, {"code": code, "detail": "odd answered 503."})
    assert result.for_log() == {"outcome": "failed", "code": code, "detail": detail}
    assert RunResult(Outcome.COMPLETED).for_log() == {"outcome": "completed", "code": None, "detail": None}


async def test_a_crashed_run_leaves_no_step_in_the_next_log_lines(faulty: Server) -> None:
    with capture_logs(processors=[merge_contextvars]) as logs:
        await faulty.post("first")
        await faulty.idle()
        await faulty.gone()
    said = [line["event"] for line in logs]
    assert "run_crashed" in said
    assert not any(line.keys() & {*LOGGED} for line in logs if line["event"] in ("run_started", "run_ended"))


async def test_a_session_that_cannot_be_stored_is_logged_once_per_outage(server: Server) -> None:
    async def rename(old: str, new: str) -> None:
        await server.stage.database.writer.write(lambda c: c.execute(text(f"ALTER TABLE {old} RENAME TO {new}")))

    with capture_logs() as logs:
        for outage in (1, 2):
            await rename("steps", "steps_away")
            await server.stage.post("hello")
            await server.fail(3)
            assert [line["event"] for line in logs].count("session_write_failed") == outage
            await rename("steps_away", "steps")
            await server.go_on()
            await server.idle()
            await server.gone()
    assert len(server.model.asked) >= 2
