from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from app.errors import ProviderError
from app.llm.base import StreamEvent, ToolArgumentsDelta
from app.llm.demo import next_reply
from app.llm.scripted import DEMO_MODEL, ScriptedProvider
from app.messages import (
    CompactionMarkerPart,
    FinishReason,
    Message,
    Role,
    ToolResultPart,
    ToolStatus,
)
from app.tools.registry import ToolRegistry, default_tools

from .values import (
    assistant,
    call,
    calls,
    collect,
    finish,
    image,
    message,
    prose,
    reasoning,
    request,
    result,
    results,
    text,
    thoughts,
    usage,
    user,
)

REGISTRY = ToolRegistry(default_tools())
TOOLS = tuple(REGISTRY.schemas())
NAMES = frozenset(tool.name for tool in TOOLS)
MODEL = ScriptedProvider(word_delay_s=0)
_numbers = count(1)
BUSYBOX = shutil.which("busybox")

Run = Callable[[str, dict[str, Any]], tuple[str, int | None]]


class Workspace:
    """Really runs the demo's calls, in a directory of the test."""

    def __init__(self, root: Path, path: str | None = None) -> None:
        self._root = root
        self._env = {"PATH": path or "/usr/bin:/bin"}

    def run(self, name: str, arguments: dict[str, Any]) -> tuple[str, int | None]:
        match name:
            case "write_file":
                (self._root / arguments["path"]).write_text(arguments["content"])
                return "written", None
            case "edit_file":
                file = self._root / arguments["path"]
                before = file.read_text()
                assert before.count(arguments["old_text"]) == 1
                file.write_text(before.replace(arguments["old_text"], arguments["new_text"]))
                return "edited", None
            case "read_file":
                return (self._root / arguments["path"]).read_text(), None
            case "execute_command":
                done = subprocess.run(
                    ["sh", "-c", arguments["command"]], cwd=self._root, env=self._env, capture_output=True, text=True
                )
                return done.stdout + done.stderr, done.returncode
            case _:
                return "ok", None


async def ask(history: list[Message], tools: tuple[Any, ...] = TOOLS) -> list[StreamEvent]:
    return await collect(MODEL.stream(request(*history, model=DEMO_MODEL, tools=tools)))


def answered(events: list[StreamEvent]) -> Message:
    """The response as a loop would store it."""
    made = [call(f"c{next(_numbers)}", name, arguments) for name, arguments in calls(events)]
    return assistant(text(prose(events)), *made, finish_reason=FinishReason.TOOL_CALLS if made else FinishReason.STOP)


def carried_out(response: Message, run: Run) -> Message:
    done: list[ToolResultPart] = []
    for asked in response.tool_calls:
        REGISTRY.parse(asked.name, asked.arguments_text)
        arguments = asked.arguments
        assert isinstance(arguments, dict)
        output, exit_code = run(asked.name, arguments)
        done.append(result(asked.call_id, output, name=asked.name, exit_code=exit_code))
    return results(*done)


async def play(history: list[Message], run: Run, steps: int = 20) -> list[Message]:
    """Runs the demo until it stops asking for tools."""
    for _ in range(steps):
        response = answered(await ask(history))
        history.append(response)
        if not response.tool_calls:
            return history
        history.append(carried_out(response, run))
    raise AssertionError("the demo does not end")


def commands(history: list[Message]) -> list[tuple[str, int | None]]:
    codes = {part.call_id: part.exit_code for told in history for part in told.tool_results}
    return [
        (asked.arguments["command"], codes[asked.call_id])
        for told in history
        for asked in told.tool_calls
        if asked.name == "execute_command" and isinstance(asked.arguments, dict)
    ]


def check_the_story(history: list[Message], root: Path) -> None:
    first, second = commands(history)
    assert (first[0], bool(first[1])) == ("sh test.sh", True)
    assert second[1] == 0
    outputs = [part.output for told in history for part in told.tool_results if part.exit_code is not None]
    assert "FAIL" in outputs[0]
    assert "FAIL" not in outputs[1]
    assert outputs[1].endswith("palimpsest-a-demo\n")
    assert "Done" in history[-1].text
    assert "tr -cs" in (root / "slugify.sh").read_text()


FOR_LONG_TASKS = {
    *("command_output", "stop_command", "recall", "history_search"),
    *("memory_read", "memory_write", "memory_search", "delegate"),
}
"""Tools that a task of a few steps has no use for."""


async def test_the_demo_finds_its_bug_and_fixes_it(tmp_path: Path) -> None:
    history = await play([user("Write me a slug function")], Workspace(tmp_path).run)
    check_the_story(history, tmp_path)
    used = {asked.name for told in history for asked in told.tool_calls}
    assert used == set(NAMES) - FOR_LONG_TASKS
    assert any(len(told.tool_calls) > 1 for told in history)
    first = history[1].text
    assert "“Write me a slug function”" in first
    assert "scripted demo, not a real model" in first


@pytest.mark.skipif(BUSYBOX is None, reason="needs busybox")
async def test_the_demo_runs_with_only_busybox(tmp_path: Path) -> None:
    tools, work = tmp_path / "bin", tmp_path / "work"
    tools.mkdir()
    work.mkdir()
    for name in ("sh", "tr", "sed"):
        (tools / name).symlink_to(str(BUSYBOX))
    check_the_story(await play([user("Go")], Workspace(work, str(tools)).run), work)


async def test_plans_progress_until_everything_is_done(tmp_path: Path) -> None:
    history = await play([user("Go")], Workspace(tmp_path).run)
    plans = [
        [item["status"] for item in asked.arguments["items"]]
        for told in history
        for asked in told.tool_calls
        if asked.name == "update_plan" and isinstance(asked.arguments, dict)
    ]
    done = [plan.count("completed") for plan in plans]
    assert done == sorted(done)
    assert set(plans[-1]) == {"completed"}


async def test_a_steer_is_acknowledged_and_the_task_continues(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    history = [user("Go")]
    for _ in range(2):
        history.append(answered(await ask(history)))
        history.append(carried_out(history[-1], workspace.run))
    history += [user("Use tabs,\nplease"), user("And hurry")]
    events = await ask(history)
    assert prose(events).startswith("You said: “Use tabs, please” “And hurry”")
    assert [name for name, _ in calls(events)] == ["update_plan", "execute_command"]
    history.append(answered(events))
    history.append(carried_out(history[-1], workspace.run))
    assert "You said" not in prose(await ask(history))
    check_the_story(await play(history, workspace.run), tmp_path)


async def test_control_messages_are_not_taken_for_the_user(tmp_path: Path) -> None:
    history = [user("Go")]
    history.append(answered(await ask(history)))
    history.append(carried_out(history[-1], Workspace(tmp_path).run))
    history.append(message(Role.CONTROL, text("Resume.")))
    assert "You said" not in prose(await ask(history))


async def test_a_second_task_gets_an_honest_answer(tmp_path: Path) -> None:
    history = await play([user("Go")], Workspace(tmp_path).run)
    events = await ask([*history, user("Now write a compiler")])
    assert calls(events) == []
    assert finish(events) == "stop"
    assert "scripted demo" in prose(events)
    assert "OPENAI_API_KEY" in prose(events)


@pytest.mark.parametrize("status", [ToolStatus.ERROR, ToolStatus.DENIED])
async def test_a_failed_tool_ends_the_demo_with_its_error(status: ToolStatus) -> None:
    history = [user("Go")]
    history.append(answered(await ask(history)))
    failed = [result(c.call_id, "no such sandbox", status, c.name) for c in history[-1].tool_calls]
    events = await ask([*history, results(*failed)])
    assert calls(events) == []
    assert status.value in prose(events)
    assert "no such sandbox" in prose(events)


async def test_an_error_with_its_remedy_is_repeated_in_full() -> None:
    history = [user("Go")]
    history.append(answered(await ask(history)))
    error = "The sandbox is not available now: " + "it says why at length, " * 30 + "\nand last: run `docker pull x:y`."
    failed = [result(c.call_id, error, ToolStatus.ERROR, c.name) for c in history[-1].tool_calls]
    history += [results(*failed), answered(await ask([*history, results(*failed)]))]
    last = history[-1].text
    assert error in last
    assert "its task is not done" in last
    assert "Done" not in last
    later = prose(await ask([*history, user("And now?")]))
    assert "it is over" in later
    assert "done" not in later.lower()


@pytest.mark.parametrize(("exit_code", "goes_on"), [(1, True), (2, True), (3, True), (126, False), (127, False)])
async def test_a_test_that_cannot_run_does_not_count_as_a_failed_test(
    tmp_path: Path, exit_code: int, goes_on: bool
) -> None:
    workspace = Workspace(tmp_path)

    def broken(name: str, arguments: dict[str, Any]) -> tuple[str, int | None]:
        if arguments.get("command") == "sh test.sh":
            return "sh: not to be had", exit_code
        return workspace.run(name, arguments)

    history = await play([user("Go")], broken)
    assert ("Done" in history[-1].text) is goes_on
    assert (f"exit status {exit_code}" in history[-1].text) is not goes_on


async def test_a_second_test_that_fails_ends_the_demo(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)

    def no_edit(name: str, arguments: dict[str, Any]) -> tuple[str, int | None]:
        return ("edited", None) if name == "edit_file" else workspace.run(name, arguments)

    history = await play([user("Go")], no_edit)
    assert "not go as scripted" in history[-1].text
    assert "3 failed" in history[-1].text or "2 failed" in history[-1].text


@pytest.mark.parametrize("status", [ToolStatus.CANCELLED, ToolStatus.INTERRUPTED])
async def test_interrupted_calls_are_repeated(status: ToolStatus) -> None:
    history = [user("Go")]
    first = await ask(history)
    history.append(answered(first))
    history.append(results(*(result(c.call_id, "", status, c.name) for c in history[-1].tool_calls)))
    history.append(message(Role.CONTROL, text("Resume.")))
    assert calls(await ask(history)) == calls(first)


async def test_a_truncated_answer_does_not_end_the_task() -> None:
    first = calls(await ask([user("Go")]))
    control = message(Role.CONTROL, text("Resume."))
    by_part = assistant(text("This is a scr", interrupted=True))
    by_reason = assistant(text("This is a scr"), finish_reason=FinishReason.CANCELLED)
    for cut_off in (by_part, by_reason):
        assert calls(await ask([user("Go"), cut_off, control])) == first


async def test_after_compaction_the_demo_continues_from_what_is_left(tmp_path: Path) -> None:
    history = await play([user("Go")], Workspace(tmp_path).run)
    summary = user("So far …", is_summary=True)
    for cut in range(3, len(history) - 1, 2):
        whole = calls(await ask(history[: cut + 2]))
        assert calls(await ask([summary, *history[cut : cut + 2]])) == whole


async def test_after_compaction_of_everything_the_demo_says_it_is_done() -> None:
    events = await ask([user("So far …", is_summary=True), user("Go on")])
    assert calls(events) == []
    assert "Done" in prose(events)


async def test_a_request_without_tools_gets_text() -> None:
    events = await ask([user("Go"), assistant(call("c")), results(result("c")), user("Summarise")], ())
    assert calls(events) == []
    assert "4 messages with 1 tool calls" in prose(events)


async def test_a_missing_tool_is_named() -> None:
    events = await ask([user("Go")], tuple(tool for tool in TOOLS if tool.name != "update_plan"))
    assert calls(events) == []
    assert "`update_plan`" in prose(events)


async def test_the_stream_is_in_small_pieces_and_has_usage_without_cost(tmp_path: Path) -> None:
    history = [user("Go")]
    first = await ask(history)
    assert len(first) > 30
    assert max(len(event.text) for event in first if isinstance(event, ToolArgumentsDelta)) <= 32
    assert finish(first) == "tool_calls"
    before = usage(first)
    assert before is not None
    assert (before.cost_usd, before.cache_read_tokens) == (0.0, 0)
    assert before.input_tokens > 100
    assert before.output_tokens > 50
    history.append(answered(first))
    history.append(carried_out(history[-1], Workspace(tmp_path).run))
    after = usage(await ask(history))
    assert after is not None
    assert after.prompt_tokens > before.prompt_tokens
    assert after.cache_read_tokens > after.input_tokens


async def test_reasoning_is_shown_before_the_fix_and_counted(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    history = [user("Go")]
    shown: list[tuple[str, int]] = []
    while not history[-1].text.startswith("Done"):
        events = await ask(history)
        report = usage(events)
        assert report is not None
        shown.append((thoughts(events), report.reasoning_tokens))
        history.append(answered(events))
        if history[-1].tool_calls:
            history.append(carried_out(history[-1], workspace.run))
    assert [bool(thought) for thought, _ in shown].count(True) == 1
    assert all(bool(thought) == bool(tokens) for thought, tokens in shown)
    assert len(shown) == 8


async def test_every_kind_of_part_counts_in_the_usage() -> None:
    async def tokens(*more: Message) -> int:
        report = usage(await ask([user("Go"), *more], ()))
        assert report is not None
        return report.prompt_tokens

    bare = await tokens()
    assert await tokens(user("x" * 400)) == bare + 100
    assert await tokens(assistant(reasoning("x" * 400))) == bare + 100
    assert await tokens(message(Role.USER, image())) == bare + 1000
    assert await tokens(message(Role.USER, CompactionMarkerPart(id="p", index=0, round=1))) == bare


async def test_no_other_model_is_served() -> None:
    with pytest.raises(ProviderError, match="has only the model demo"):
        await collect(MODEL.stream(request(model="other")))


async def test_closing_does_nothing_and_pacing_is_optional() -> None:
    await MODEL.aclose()
    assert prose(await collect(ScriptedProvider(word_delay_s=0).stream(request(model=DEMO_MODEL))))


def test_the_script_is_a_pure_function_of_the_messages() -> None:
    history = [user("Go"), assistant(text("Partly"), finish_reason=FinishReason.CANCELLED), user("On")]
    assert next_reply(history, NAMES) == next_reply(list(history), NAMES)
    assert next_reply(history, NAMES).text.startswith("You said: “On”")
    long = next_reply([user("word " * 500)], NAMES).text
    assert "…”" in long
    assert len(long) < 1000
