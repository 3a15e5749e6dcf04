"""Nothing is lost: clipped output and old messages are found again with one call."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable
from typing import Any

import pytest

from app.messages import new_id
from tests.behavior.checks import assert_sound
from tests.behavior.combinations import first_of
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, Event, RunningServer, command, of_type
from tests.behavior.test_memory import run_in
from tests.provider import FakeProvider, RecordedRequest, Reply, Text, ToolCall

pytestmark = pytest.mark.shared_server

FLOOD = (
    "yes 'nothing to see in this line' | head -n 90000; echo 'ERROR 4711: the needle'; "
    "yes 'still nothing' | head -n 200000"
)
"""About 5 MB, with the needle in the middle."""


def recall(request: RecordedRequest, place: int = 0, **arguments: Any) -> Reply:
    """Recalls a call of the conversation, by its place among those with a result."""
    return Reply(ToolCall("recall", {"call_id": list(request.tool_results)[place], **arguments}))


def outputs(events: list[Event], name: str) -> list[dict[str, Any]]:
    return [event.data for event in of_type(events, "tool.result") if event.data["name"] == name]


@first_of(model=[OPENAI, ANTHROPIC])
async def test_a_needle_in_a_large_output_is_found_by_one_call(
    client: Client, provider: FakeProvider, model: str
) -> None:
    provider.script(Reply(command(FLOOD)), lambda request: recall(request, grep=r"ERROR \d+"))
    session, events = await client.run("task", model=model)

    (flood,) = outputs(events, "execute_command")
    assert flood["bytes"] > 5_000_000
    assert "needle" not in flood["output"], "it is in the part that was left out"
    assert f'recall("{flood["call_id"]}")' in flood["output"]
    (found,) = outputs(events, "recall")
    assert (found["status"], found["truncated"]) == ("completed", False)
    assert "\n90001:ERROR 4711: the needle\n90002-still nothing\n" in found["output"]
    assert "[1 match; the output has 290,001 lines]" in found["output"]
    assert len(found["output"]) < 500
    assert provider.requests[2].tool_results[found["call_id"]] == found["output"]
    assert provider.refusals == []
    await assert_sound(client, session["id"])


async def test_lines_of_an_output_are_read_to_its_end(client: Client, provider: FakeProvider) -> None:
    def read_on(request: RecordedRequest) -> Reply:
        last = list(request.tool_results.values())[-1]
        more = re.search(r"read on with start_line=(\d+)", last)
        start = {"start_line": int(more[1])} if more else {}
        return recall(request, **start) if more or len(request.tool_results) == 1 else Reply(Text("done"))

    numbers = "i=0; while [ $i -lt 9000 ]; do echo number $i; i=$((i+1)); done"
    provider.script(Reply(command(numbers)), *[read_on] * 10)
    _, events = await client.run("task")

    parts = outputs(events, "recall")
    assert len(parts) > 3
    text = "".join(re.sub(r"\[lines .*\]$", "", part["output"]) for part in parts)
    assert text == "".join(f"number {number}\n" for number in range(9000))
    assert not any(part["truncated"] for part in parts)


async def test_a_hostile_pattern_costs_neither_time_nor_memory(client: Client, provider: FakeProvider) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    provider.script(
        Reply(command("yes x | head -n 50000 | tr -d '\\n'")),
        lambda request: recall(request, grep="(x+x+)+y"),
        lambda request: recall(request, grep="(?:(?:(?:(?:a?){50}){50}){50}){50}"),
        lambda request: recall(request, grep="(?R)x|y(?R)"),
        Reply(Text("I see")),
    )
    session, events = await client.run("task")

    slow, exploding, recursive = outputs(events, "recall")
    assert session["outcome"] == "completed"
    assert [result["status"] for result in (slow, exploding, recursive)] == ["completed", "error", "error"]
    assert "use fewer or smaller repetitions" in exploding["output"]
    assert "not supported" in recursive["output"]
    # The server is in this process; before, the second pattern took 4.5 GB and ten seconds.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


async def test_recall_needs_no_sandbox_and_says_what_is_wrong(
    client: Client, server: RunningServer, provider: FakeProvider
) -> None:
    provider.script_for("task a", Reply(command("echo mine")))
    mine, events = await client.run("task a")
    foreign = outputs(events, "execute_command")[0]["call_id"]
    unknown = [ToolCall("recall", {"call_id": call_id}) for call_id in (new_id(), foreign, "../../etc/passwd")]
    provider.script_for("task b", Reply(*unknown))
    session, events = await client.run("task b", tools=["recall"])

    answers = outputs(events, "recall")
    assert [answer["status"] for answer in answers] == ["error"] * 3
    assert all("history_search" in answer["output"] for answer in answers)
    workspaces = server.settings.data_dir / "workspaces"
    assert [(workspaces / made["id"]).exists() for made in (mine, session)] == [True, False]


async def test_an_early_decision_is_found_in_a_later_run(
    start_server: Callable[..., RunningServer], provider: FakeProvider
) -> None:
    decision = "We settled on port 8642 because 8080 is taken by the proxy."
    steps = [Reply(Text(f"Step {number}."), command(f"echo working on part {number}")) for number in range(30)]
    search = ToolCall("history_search", {"query": "which port was decided, settled"})
    provider.script_for("other", Reply(Text("In this session we settled on port 1111.")))
    first, *rest = steps
    opening = Reply(Text(decision), *first.calls)
    provider.script_for("task", opening, *rest, Reply(Text("built")), Reply(search), Reply(Text("8642")), Reply(search))
    server = start_server()
    async with Client(server.url) as client:
        await client.run("other")
        session, _ = await client.run("task: build a shop", limits={"max_steps": 100})
        early = await run_in(client, session["id"], "go on")
    server.stop()
    async with Client(start_server().url) as client:
        late = await run_in(client, session["id"], "and again")
        deciding = next(m for m in await client.messages(session["id"]) if decision in str(m["parts"]))
        for found in (early[-1], late[-1]):
            assert (found["name"], found["status"]) == ("history_search", "completed")
            first, *_ = found["output"].split("\n")
            assert first == f"{deciding['id']} (assistant, seq {deciding['seq']}): {decision}"
            assert "1111" not in found["output"]
        assert (await client.http.delete(f"/v1/sessions/{session['id']}")).status_code == 204
    assert provider.refusals == []


async def test_a_search_result_leads_to_the_output(client: Client, provider: FakeProvider) -> None:
    def recall_found(request: RecordedRequest) -> Reply:
        found = re.search(r"^(\S+) \(tool, ", list(request.tool_results.values())[-1], re.MULTILINE)
        assert found is not None
        return Reply(ToolCall("recall", {"call_id": found[1]}))

    provider.script(
        Reply(command("echo the zebra is at home; seq 3")),
        Reply(command("echo nothing")),
        Reply(ToolCall("history_search", {"query": '"zebra is at" AND ('})),
        recall_found,
    )
    _, events = await client.run("task")
    (found,) = outputs(events, "recall")
    assert found["output"] == "the zebra is at home\n1\n2\n3\n"
