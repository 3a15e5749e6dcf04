from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError

from app.errors import ToolError
from app.messages import ToolStatus
from app.tools.shell import MAX_COMMAND_CHARS, ExecuteCommand, ExecuteCommandArguments
from tests.unit.tools.workbench import Workbench

shell = ExecuteCommand()


async def test_output_and_success(bench: Workbench) -> None:
    text, outcome = await bench.run(shell, command="echo out; echo err >&2")
    assert sorted(text.splitlines()) == ["err", "out"]
    assert (outcome.status, outcome.exit_code, outcome.note) == (ToolStatus.COMPLETED, 0, "")


async def test_a_failing_command_completes_with_its_exit_code(bench: Workbench) -> None:
    text, outcome = await bench.run(shell, command="echo no; exit 3")
    assert text == "no\n"
    assert (outcome.status, outcome.exit_code, outcome.note) == (ToolStatus.COMPLETED, 3, "[exit code 3]")


@pytest.mark.parametrize(("command", "note"), [("true", "[no output]"), ("false", "[no output]\n[exit code 1]")])
async def test_missing_output_is_reported(bench: Workbench, command: str, note: str) -> None:
    assert (await bench.run(shell, command=command))[1].note == note


async def test_a_timeout_is_an_error_that_keeps_the_output(bench: Workbench) -> None:
    text, outcome = await bench.run(shell, command="echo begun; sleep 60", timeout_s=0.3)
    assert text == "begun\n"
    assert outcome.status is ToolStatus.ERROR
    assert outcome.exit_code is None
    assert outcome.note == "[timed out after 0.3 s; every process of the command was ended]"


async def test_the_default_timeout_is_the_contexts(bench: Workbench) -> None:
    slow = Workbench(bench.sandbox, bench.root, timeout_s=0.2)
    _, outcome = await slow.run(shell, command="sleep 60")
    assert outcome.note == "[no output]\n[timed out after 0.2 s; every process of the command was ended]"


async def test_a_timeout_above_the_limit_is_refused_before_anything_runs(bench: Workbench) -> None:
    with pytest.raises(ToolError, match="may be 100 at most"):
        await bench.run(shell, command="touch ran", timeout_s=100.5)
    assert not (bench.root / "ran").exists()
    assert (await bench.run(shell, command="touch ran", timeout_s=100))[1].exit_code == 0


async def test_output_comes_while_the_command_runs_and_survives_a_cancellation(bench: Workbench) -> None:
    task = asyncio.create_task(bench.run(shell, command="echo first; sleep 60"))
    await bench.sink.seen.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.sink.text == "first\n"


async def test_nul_and_half_a_surrogate_pair_reach_the_shell_as_replacement(bench: Workbench) -> None:
    text, _ = await bench.run(shell, command="printf %s 'a\x00b\ud800'")
    assert text == "a\ufffdb\ufffd"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"command": ""},
        {"command": "x" * (MAX_COMMAND_CHARS + 1)},
        {"command": "true", "timeout_s": 0},
        {"command": "true", "timeout_s": -1},
        {"command": "true", "timeout_s": float("nan")},
        {"command": "true", "timeout_s": float("inf")},
        {"command": "true", "cwd": "/"},
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ExecuteCommandArguments.model_validate(arguments)


async def test_the_longest_command_still_starts(bench: Workbench) -> None:
    filler = "€" * (MAX_COMMAND_CHARS - len("true #"))
    _, outcome = await bench.run(shell, command=f"true #{filler}")
    assert outcome.exit_code == 0
