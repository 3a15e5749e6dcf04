"""Facts known to the server do not depend on the model: they survive any number of empty summaries."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, command, of_type
from tests.behavior.long_task import asks_for_summary
from tests.load import LONG
from tests.provider import FakeProvider, RecordedRequest, Reply, Text, ToolCall

WINDOW = 16_000
JUNK = "blah"
TASK = "Build the thing: «exactly» as told,\n  with two blanks here, and a | pipe."
PLAN = [{"text": "lay the ground", "status": "completed"}, {"text": "raise the walls", "status": "in_progress"}]
FACTS_SHARE = 0.25


class Worker:
    """Makes one step with these calls for each user message, then says that it is done."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.junk = 0
        self.turn = 0
        self.at_work = False

    def __call__(self, request: RecordedRequest) -> Reply:
        with self._lock:
            if asks_for_summary(request):
                self.junk += 1
                return Reply(Text(JUNK))
            self.at_work = not self.at_work
            if not self.at_work:
                return Reply(Text("done with that"))
            self.turn += 1
            return Reply(Text("word " * 1_000), *self._calls())

    def _calls(self) -> list[ToolCall]:
        if self.turn == 1:
            return [ToolCall("update_plan", {"items": PLAN})]
        path = f"src/file {self.turn}.txt"
        return [
            ToolCall("write_file", {"path": path, "content": "line\n" * self.turn}),
            ToolCall("edit_file", {"path": path, "old_text": "line\n" * self.turn, "new_text": "other\n"}),
            command(f"false {self.turn}"),
        ]


def request_of(turn: int) -> str:
    return f"Request {turn}: never touch part {turn * 37}. " + "Mind this. " * 80


@pytest.mark.parametrize(
    ("policy", "model", "many"),
    [
        ("reactive", OPENAI, 4),
        ("handoff", ANTHROPIC, 4),
        pytest.param("threshold", ANTHROPIC, 10, marks=pytest.mark.extended),
        pytest.param("handoff", OPENAI, 10 if LONG else 4, marks=pytest.mark.extended),
    ],
)
@pytest.mark.slow
async def test_empty_summaries_lose_no_known_fact(
    start_server: StartServer, provider: FakeProvider, policy: str, model: str, many: int
) -> None:
    provider.configure(window=WINDOW)
    worker = Worker()
    provider.respond(worker)
    models = {name: {"context_window": WINDOW} for name in (OPENAI, ANTHROPIC)}
    async with Client(start_server(models=models).url) as client:
        # Each run ends after a step, so most summaries prepared in it would be unused.
        waits = {"policy": policy, "background": False}
        session, _ = await client.run(TASK, model=model, compaction=waits)
        turn, count, summary = 1, 0, ""
        while count < many:
            turn += 1
            assert turn < 200, "the context was never full"
            await client.say(session["id"], request_of(turn))
            session = await client.session(session["id"])
            assert (session["outcome"], session["error"]) == ("completed", None)
            if session["compaction"]["count"] > count:
                count = session["compaction"]["count"]
                summary = await _holds_all(client, session["id"], provider.requests[-1], turn)
        # After ten rounds there is more than fits; after four it depends on the policy.
        assert many < 10 or "Not shown for lack of room: " in summary
        events = await assert_sound(client, session["id"])
        completed = of_type(events, "compaction.completed")
        assert [event.data["rung"] for event in completed].count("summary") >= many / 2
        assert worker.junk <= 2 * len(completed)
        messages = await client.messages(session["id"])
        assert [m["parts"][0]["text"] for m in messages if m["role"] == "user" and not m["is_summary"]] == [
            TASK,
            *(request_of(number) for number in range(2, turn + 1)),
        ]
    assert provider.refusals == []


async def _holds_all(client: Client, session_id: str, request: RecordedRequest, turn: int) -> str:
    """The request contains all known facts; so does the summary, whose text is returned."""
    whole = "\n".join((request.system, *request.user_texts, *request.assistant_texts))
    assert TASK in whole
    assert request_of(turn).strip() in whole
    assert "raise the walls" in whole
    assert "lay the ground" in whole
    context = await client.get(f"/v1/sessions/{session_id}/context")
    summaries = [item["message"] for item in context["messages"] if item["message"]["is_summary"]]
    assert len(summaries) == 1
    usable = (await client.session(session_id))["context"]["usable"]
    stand = [
        number for number in range(2, turn + 1) if request_of(number).strip() in map(str.strip, request.user_texts)
    ]
    _check_summary(summaries[0], turn, usable, stand)
    return str(summaries[0]["parts"][0]["text"])


def _check_summary(summary: dict[str, Any], turn: int, usable: int, stand: list[int]) -> None:
    """`stand` are the turns whose requests are still in the context as messages; the summary omits them."""
    text = summary["parts"][0]["text"]
    assert f"<notes>\n{JUNK}\n</notes>" in text or "[Written without a model]" in text
    assert TASK in text
    assert "[>] raise the walls" in text
    assert summary["tokens"] < FACTS_SHARE * usable + 1_000
    requests = [int(number) for number in re.findall(r"^Request (\d+): ", text, re.MULTILINE)]
    failed = [int(number) for number in re.findall(r"^- false (\d+): exit code 1", text, re.MULTILINE)]
    files = [
        int(number) for number in re.findall(r"^- src/file (\d+)\.txt: written, edited; last: ", text, re.MULTILINE)
    ]
    requests.reverse()
    _newest_first(requests, next(number for number in range(turn, 0, -1) if number not in stand))
    for found in (failed, files):
        _newest_first(found, turn)
    assert all(request_of(number).strip() in text for number in requests)
    _rest_is_counted(text, {"user message": requests, "failed command": failed, "changed file": files}, turn)


def _newest_first(found: list[int], turn: int) -> None:
    assert found
    assert found == list(range(found[0], found[0] - len(found), -1))
    assert turn - 1 <= found[0] <= turn


def _rest_is_counted(text: str, shown: dict[str, list[int]], turn: int) -> None:
    counts = {
        noun.rstrip("s"): int(n)
        for n, noun in re.findall(r"(\d+) (user messages?|failed commands?|changed files?)", text)
    }
    for noun, found in shown.items():
        # The turns from the second on, up to the newest one in this list.
        assert len(found) + counts.get(noun, 0) == found[0] - 1, noun
