"""Tool results: clipped output that is stored whole, errors that say what to do, a plan."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import pytest

from app.messages import new_id
from tests.behavior.checks import assert_sound, following
from tests.behavior.combinations import first_of
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, Event, RunningServer, command, of_type
from tests.behavior.test_interrupt import stubborn
from tests.behavior.test_queue import WAIT_FOR_FILE, release
from tests.provider import FakeProvider, Gate, Interleaved, Reply, Text, ToolCall
from tests.unit.sandbox.shell import sleepers, unique_seconds

pytestmark = pytest.mark.shared_server


def results_of(events: Sequence[Event]) -> list[Event]:
    """Results in the order of their calls."""
    return sorted(of_type(list(events), "tool.result"), key=lambda event: event.data["index"])


async def test_long_output_is_clipped_and_stored_whole(client: Client, provider: FakeProvider, sandbox: str) -> None:
    provider.script(Reply(command("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done")))
    session, events = await client.run("task")
    whole = "".join(f"line {number}\n" for number in range(20_000)).encode()

    (result,) = results_of(events)
    output = result.data["output"]
    assert (result.data["status"], result.data["exit_code"], result.data["truncated"]) == ("completed", 0, True)
    assert result.data["bytes"] == len(whole)
    head, _, rest = output.partition("\n[…")
    note, _, tail = rest.partition("…]\n")
    assert (len(head), len(tail)) == (15_000, 15_000)
    assert whole.startswith(head.encode())
    assert whole.endswith(tail.encode())
    assert f"{len(whole) - 30_000:,} characters" in note
    assert provider.requests[1].tool_results == {result.data["call_id"]: output}

    path = f"/v1/sessions/{session['id']}/tool-calls/{result.data['call_id']}/output"
    got = await client.http.get(path)
    assert got.content == whole
    assert got.headers["content-disposition"].startswith("attachment")
    assert got.headers["x-content-type-options"] == "nosniff"
    await _assert_ranges(client, path, whole)


async def test_a_progress_bar_is_its_last_state_and_stored_whole(client: Client, provider: FakeProvider) -> None:
    bar = r"i=0; while [ $i -lt 3000 ]; do i=$((i+1)); printf '\r%s' $i; done; printf '\n\033[32mend\033[0m\n'"
    provider.script(Reply(command(bar)))
    session, events = await client.run("task")
    (result,) = results_of(events)
    assert (result.data["output"], result.data["truncated"]) == ("3000\nend\n", False)
    assert provider.requests[1].tool_results == {result.data["call_id"]: "3000\nend\n"}
    got = await client.http.get(f"/v1/sessions/{session['id']}/tool-calls/{result.data['call_id']}/output")
    assert got.content == b"".join(b"\r%d" % number for number in range(1, 3001)) + b"\n\x1b[32mend\x1b[0m\n"


async def _assert_ranges(client: Client, path: str, whole: bytes) -> None:
    size = len(whole)
    for asked, first, last in [
        ("bytes=0-99", 0, 99),
        ("bytes=1000-1000", 1000, 1000),
        (f"bytes={size - 10}-", size - 10, size - 1),
        ("bytes=-7", size - 7, size - 1),
        (f"bytes=100-{size + 5}", 100, size - 1),
    ]:
        part = await client.http.get(path, headers={"Range": asked})
        assert part.status_code == 206, asked
        assert part.headers["content-range"] == f"bytes {first}-{last}/{size}"
        assert part.content == whole[first : last + 1]
    beyond = await client.http.get(path, headers={"Range": f"bytes={size}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")


async def test_every_byte_of_an_output_comes_back(client: Client, provider: FakeProvider) -> None:
    provider.script(
        Reply(
            command("printf '\\000\\001\\377\\303'; printf 'ok' >&2"),
            command("true"),
            command("printf 'ä'; exit 3"),
            command("kill -9 $$"),
        )
    )
    session, events = await client.run("task")

    results = results_of(events)
    raw = []
    for event in results:
        path = f"/v1/sessions/{session['id']}/tool-calls/{event.data['call_id']}/output"
        raw.append((await client.http.get(path)).content)
    assert sorted(raw[0]) == sorted(b"\x00\x01\xff\xc3ok")
    assert raw[1:] == [b"", "ä".encode(), b""]
    assert [event.data["exit_code"] for event in results] == [0, 0, 3, 137]
    assert [event.data["status"] for event in results] == ["completed"] * 4
    assert [event.data["output"] for event in results[1:]] == [
        "[no output]",
        "ä\n[exit code 3]",
        "[no output]\n[exit code 137]",
    ]
    assert "\x00" not in results[0].data["output"]
    unknown = f"/v1/sessions/{session['id']}/tool-calls/{new_id()}"
    assert (await client.http.get(unknown)).status_code == 404
    assert (await client.http.get(f"{unknown}/output")).status_code == 404
    assert provider.refusals == []


async def test_a_running_call_has_no_output_yet(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(command(WAIT_FOR_FILE)))
    session_id = (await client.create("task"))["id"]
    async with following(client, session_id) as follower:
        call_id = (await follower.type("tool.call")).data["call_id"]
        await follower.type("tool.output")
        path = f"/v1/sessions/{session_id}/tool-calls/{call_id}"
        call, output = await client.get(path), await client.http.get(f"{path}/output")
        await release(client, session_id)
    await client.until_idle(session_id)

    assert (call["call"]["status"], call["result"]) == ("running", None)
    assert (output.status_code, output.json()["code"]) == (409, "call_open")


async def test_a_timeout_ends_every_process_and_keeps_the_output(
    client: Client, provider: FakeProvider, sandbox: str
) -> None:
    seconds = unique_seconds()
    provider.script(Reply(command(stubborn(seconds), timeout_s=0.6)), Reply(Gate("next"), Text("ok")))
    session_id = (await client.create("task"))["id"]
    await provider.reached("next")
    left = sleepers(seconds)
    provider.open("next")
    events = await client.until_idle(session_id)

    assert left == 0
    (result,) = results_of(events)
    assert (result.data["status"], result.data["exit_code"]) == ("error", None)
    assert "partial" in result.data["output"]
    assert "on stderr" in result.data["output"]
    assert "timed out after 0.6 s" in result.data["output"]
    assert result.data["duration_ms"] >= 600
    (shown,) = provider.requests[1].tool_results.values()
    assert shown == result.data["output"]


async def test_the_servers_timeout_is_the_default(
    start_server: Callable[..., RunningServer], provider: FakeProvider
) -> None:
    provider.script(Reply(command("sleep 60"), command("true", timeout_s=11)))
    async with Client(start_server(command_timeout_s=0.3, command_timeout_max_s=10).url) as client:
        _, events = await client.run("task")
    first, second = results_of(events)
    assert "timed out after 0.3 s" in first.data["output"]
    assert (second.data["status"], second.data["exit_code"]) == ("error", None)
    assert "10 at most" in second.data["output"]


async def test_a_background_process_delays_nothing_and_ends_with_the_session(
    client: Client, provider: FakeProvider, sandbox: str
) -> None:
    seconds = unique_seconds()
    provider.script(Reply(command(f"setsid sleep {seconds} & echo started")))
    session, events = await client.run("task")
    (result,) = results_of(events)
    # In bubblewrap it ends with the command already.
    told = "[a process that still ran was ended with the command; background=true keeps one running]"
    output = f"started\n{told}" if sandbox == "bubblewrap" else "started\n"
    assert (result.data["status"], result.data["output"]) == ("completed", output)
    assert result.data["duration_ms"] < 5000

    assert (await client.http.delete(f"/v1/sessions/{session['id']}")).status_code == 204
    assert sleepers(seconds) == 0


SLIPS = [
    (ToolCall("execute_command", '{"command": "ls'), "not valid JSON", "execute_command"),
    (ToolCall("execute_command", "[1]"), "array", "execute_command"),
    (ToolCall("execute_command", {}), "command is missing", "execute_command"),
    (ToolCall("read_file", {"path": "a", "color": "red"}), "'color' is not an argument", "read_file"),
    (ToolCall("fly_to_moon", {"fast": True}), "no tool 'fly_to_moon'", "execute_command"),
    (ToolCall("read_file", {"path": "nowhere.txt"}), "nowhere.txt", ""),
    (ToolCall("read_file", {"path": "../../etc/passwd"}), "Error", ""),
    (ToolCall("list_directory", {"path": 5}), "path", "list_directory"),
]


@first_of(model=[OPENAI, ANTHROPIC])
async def test_invalid_calls_come_back_as_errors_that_say_what_to_do(
    client: Client, provider: FakeProvider, model: str
) -> None:
    provider.script(Reply(*(call for call, _, _ in SLIPS)), Reply(Text("I see")))
    session, events = await client.run("task", model=model)

    assert session["outcome"] == "completed"
    results = results_of(events)
    assert [event.data["index"] for event in results] == list(range(len(SLIPS)))
    for (call, says, offers), result in zip(SLIPS, results, strict=True):
        assert result.data["name"] == call.name
        assert result.data["status"] == "error", call
        assert says in result.data["output"]
        assert offers in result.data["output"]
    assert list(provider.requests[1].tool_results) == [event.data["call_id"] for event in results]
    assert provider.refusals == []
    await assert_sound(client, session["id"])


def _interval(result: Event) -> tuple[datetime, datetime]:
    end = datetime.fromisoformat(result.data["at"])
    return end - timedelta(milliseconds=result.data["duration_ms"]), end


async def test_calls_that_a_local_model_writes_as_text_run_or_fail_with_a_reason(
    client: Client, provider: FakeProvider
) -> None:
    coder = "<tool_call>\n<function=execute_command>\n<parameter=command>\necho $((40+2))\n</parameter>\n</function>"
    provider.script(
        Reply(Text(f"I look.\n{coder}\n</tool_call>", chunks=9)),
        Reply(Text('<tool_call>\n{"name": "execute_command", "arguments": {"command": "ls}}\n</tool_call>')),
        Reply(Text("Done.")),
    )
    session, events = await client.run("task", model=OPENAI)
    ran, failed = (event.data for event in of_type(events, "tool.result"))
    assert (ran["status"], ran["output"]) == ("completed", "42\n")
    assert (failed["status"], failed["name"]) == ("error", "execute_command")
    assert "not valid JSON" in failed["output"]
    assert [event.data["text"] for event in of_type(events, "text.completed")] == ["I look.\n", "Done."]
    assert (session["outcome"], session["answer"]) == ("completed", "Done.")
    assert provider.refusals == []


async def test_safe_calls_overlap_and_commands_do_not(client: Client, provider: FakeProvider, sandbox: str) -> None:
    exclusive = "mkdir lock && sleep 0.1 && rmdir lock"
    slow = ToolCall("search_files", {"pattern": "(x+x+)+y"})
    provider.script(
        Reply(command("for n in 1 2 3 4 5 6 7 8 9; do yes xxxxxxxxxxxxxxz | head -n 9000 > f$n; done")),
        Reply(
            command(exclusive),
            command(exclusive),
            slow,
            slow,
            command("rm f?"),
            ToolCall("list_directory", {"path": "."}),
        ),
    )
    session, events = await client.run("task")

    results = results_of([event for event in events if event.data.get("message_id") != _first_results(events)])
    assert [event.data["status"] for event in results] == ["completed"] * 6
    assert [event.data["exit_code"] for event in results[:2]] == [0, 0], "commands run one after the other"
    (one_start, one_end), (two_start, two_end) = _interval(results[2]), _interval(results[3])
    shorter = min(one_end - one_start, two_end - two_start)
    assert min(one_end, two_end) - max(one_start, two_start) > shorter / 2, "searches run side by side"
    assert "f1" not in results[5].data["output"], "what comes after a command sees what it did"
    calls = [event.data["call_id"] for event in of_type(events, "tool.call")][1:]
    assert [event.data["call_id"] for event in results] == calls
    assert list(provider.requests[2].tool_results)[1:] == calls
    await assert_sound(client, session["id"])


def _first_results(events: Sequence[Event]) -> str:
    message_id: str = of_type(list(events), "tool.result")[0].data["message_id"]
    return message_id


@first_of(model=[OPENAI, ANTHROPIC])
async def test_interleaved_calls_and_repeated_ids_are_kept_apart(
    client: Client, provider: FakeProvider, model: str
) -> None:
    calls = [
        ToolCall("write_file", {"path": f"f{number}", "content": str(number)}, chunks=4, id="same")
        for number in range(3)
    ]
    interleaved = Interleaved(*calls) if model == OPENAI else None
    provider.script(Reply(interleaved) if interleaved else Reply(*calls), Reply(*calls), Reply(Text("done")))
    session, events = await client.run("task", model=model)

    assert len({event.data["call_id"] for event in of_type(events, "tool.call")}) == 6
    for number in range(3):
        file = await client.http.get(f"/v1/sessions/{session['id']}/files/f{number}")
        assert file.content == str(number).encode()
    assert provider.refusals == []
    await assert_sound(client, session["id"])


async def test_a_plan_is_in_its_result_and_not_in_the_system_text(client: Client, provider: FakeProvider) -> None:
    items = [{"text": "dig", "status": "completed"}, {"text": "plant", "status": "in_progress"}, {"text": "water"}]
    provider.script(
        Reply(ToolCall("update_plan", {"items": items})),
        Reply(ToolCall("list_directory", {"path": "."})),
        Reply(Text("ok")),
    )
    session, events = await client.run("task")

    (updated,) = of_type(events, "plan.updated")
    assert [(item["text"], item["status"]) for item in updated.data["items"]] == [
        ("dig", "completed"),
        ("plant", "in_progress"),
        ("water", "pending"),
    ]
    told = [[*request.tool_results.values()][:1] for request in provider.requests]
    assert told == [[], *[["[x] dig\n[>] plant\n[ ] water"]] * 2]
    assert len({request.system for request in provider.requests}) == 1, "the prompt cache stays warm"
    assert "## Your plan" not in provider.requests[0].system
    next_one = await client.get(f"/v1/sessions/{session['id']}/context")
    assert next_one["system"]["text"] == provider.requests[0].system
    assert provider.refusals == []


async def test_a_patch_takes_effect_from_the_next_step(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("hm"), command(WAIT_FOR_FILE)), Reply(command("ls")))
    session_id = (await client.create("task", system_prompt="You are a gardener."))["id"]
    async with following(client, session_id) as follower:
        await follower.type("tool.output")
        change = {"model": ANTHROPIC, "system_prompt": "You are a baker.", "tools": ["read_file", "list_directory"]}
        patched = await client.change(session_id, **change)
        await release(client, session_id)
        await follower.type("session.idle")

    assert (patched["model"], patched["status"]) == (ANTHROPIC, "running")
    first, second, third = provider.requests
    assert (first.wire, second.wire, third.wire) == ("openai", "anthropic", "anthropic")
    assert first.system.startswith("You are a gardener.")
    assert second.system.startswith("You are a baker.")
    assert second.tool_names == third.tool_names == ("read_file", "list_directory")
    assert len(first.tool_names) > 2
    events = await assert_sound(client, session_id)
    assert [event.data["status"] for event in of_type(events, "tool.result")] == ["completed", "error"]
    assert len(of_type(events, "session.updated")) == 1
    assert provider.refusals == []
    models = {message["model"] for message in await client.messages(session_id) if message["role"] == "assistant"}
    assert models == {OPENAI, ANTHROPIC}


async def test_sessions_do_not_see_each_other(client: Client, provider: FakeProvider, sandbox: str) -> None:
    provider.script_for("task a", Reply(command("echo mine > secret; pwd; id -u")))
    provider.script_for("task b", Reply(command("ls -A; cat secret")))
    one, _ = await client.run("task a")
    other, events = await client.run("task b")

    (result,) = results_of(events)
    assert "mine" not in result.data["output"]
    assert result.data["exit_code"] != 0
    files = await asyncio.gather(*(client.http.get(f"/v1/sessions/{s['id']}/files/secret") for s in (one, other)))
    assert [file.status_code for file in files] == [200, 404]
