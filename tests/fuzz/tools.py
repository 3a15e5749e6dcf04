"""The tools under hostile arguments: each call has a result or a helpful error, and nothing outside of the workspace
changes."""

from __future__ import annotations

from itertools import takewhile
from typing import Any, Self

from hypothesis.strategies import SearchStrategy

from tests.fuzz.engine import Crash, Outcome
from tests.fuzz.outside import Outside
from tests.fuzz.rig import Rig
from tests.fuzz.tool_inputs import SCHEMAS, Calls, messages
from tests.provider import RecordedRequest, Reply, Text, ToolCall
from tests.provider.script import Answer

CRASHED = "failed inside the service"
"""The message to the model after an unexpected error in a tool."""
ENDED = {"completed", "error"}
TASK = "Go on."


class ToolFuzzer:
    """Has the model make the calls in a session of a real server, whose commands run in bubblewrap."""

    def __enter__(self) -> Self:
        self._rig = Rig(command_timeout_s=2, command_timeout_max_s=2)
        self._rig.__enter__()
        neighbour = self._rig.new_session()
        self._rig.http.put(f"/v1/sessions/{neighbour}/files/a", content=b"").raise_for_status()
        self._outside = Outside(self._rig.data_dir, neighbour)
        return self

    def __exit__(self, *_: object) -> None:
        self._rig.__exit__(None, None, None)

    def cases(self) -> SearchStrategy[Calls]:
        return messages()

    def shown(self, case: Calls) -> str:
        return repr(case)

    def attempt(self, case: Calls) -> list[Outcome]:
        session_id = self._rig.session()
        self._rig.answers = _plays(case)
        before = self._outside.state()
        refused = len(self._rig.provider.broken)
        try:
            events = self._rig.told(session_id, TASK)
            self._check(case, events, refused)
            self._outside.check(before)
        except Exception:
            self._rig.forget_session()
            raise
        results = [event for event in events if event["event"] == "tool.result"]
        return [(_tool(str(result["name"])), str(result["status"])) for result in results]

    def _check(self, case: Calls, events: list[dict[str, Any]], refused: int) -> None:
        results = [event for event in events if event["event"] == "tool.result"]
        if len(results) != len(case.calls):
            raise Crash(f"{len(case.calls)} calls have {len(results)} results")
        for result in results:
            if CRASHED in result["output"] or result["status"] not in ENDED:
                raise Crash(f"{result['name']} ended as {result['status']}: {result['output'][:2_000]}")
            if self._outside.secret.decode() in result["output"]:
                raise Crash(f"{result['name']} has read what lies outside")
        ends = [event for event in events if event["event"] == "session.idle"]
        if [event["outcome"] for event in ends] != ["completed"]:
            raise Crash(f"the run ended as {ends}")
        if broken := self._rig.provider.broken[refused:]:
            raise Crash(f"the provider refused what followed: {broken}")


def _tool(name: str) -> str:
    return name if name in SCHEMAS else "no tool"


def _plays(case: Calls) -> Any:
    """The calls, then an end once their results are there, whatever the service says after them."""

    def answer(request: RecordedRequest) -> Answer:
        since = takewhile(lambda message: message["content"] != TASK, reversed(request.messages))
        if any(message["role"] == "tool" for message in since):
            return Reply(Text("Done."))
        return Reply(*(ToolCall(call.name, call.arguments) for call in case.calls))

    return answer
