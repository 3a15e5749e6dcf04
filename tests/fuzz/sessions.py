"""Garbled model streams end to end: the session becomes idle, its history is sound, and it accepts more messages."""

from __future__ import annotations

from typing import Any, Self

from hypothesis.strategies import SearchStrategy

from tests.fuzz.engine import Crash, Outcome
from tests.fuzz.rig import Rig
from tests.fuzz.stream_inputs import Answer, Wire, answers
from tests.provider import HttpError, RecordedRequest, Reply, Text
from tests.provider.script import Answer as Scripted

PROVIDERS: dict[Wire, str] = {
    "openai": "fake-openai",
    "anthropic": "fake-anthropic",
    "responses": "fake-responses",
}
GARBLED, PLAIN = "Say anything.", "Say that you are well."
WELL = "I am well."
OUTCOMES = {"completed", "failed", "limit_reached"}
MAX_ROUNDS = 3
"""Number of garbled answers; then a plain one ends the run, whose calls would otherwise go on."""


class SessionFuzzer:
    """Answers a message of a session with bytes, then another as a provider should."""

    def __enter__(self) -> Self:
        self._rig = Rig()
        self._rig.__enter__()
        self._models = 0
        return self

    def __exit__(self, *_: object) -> None:
        self._rig.__exit__(None, None, None)

    def cases(self) -> SearchStrategy[Answer]:
        return answers()

    def shown(self, case: Answer) -> str:
        return repr(case)

    def attempt(self, case: Answer) -> list[Outcome]:
        session_id = self._rig.session()
        self._take_new_model(session_id, case.wire)
        try:
            first = self._told(session_id, GARBLED, _garbled(case))
            if any(mark in case.data for mark in (b'"thinking"', b'"redacted_thinking"')):
                # Its signature is invalid, so its own model would not accept it back.
                self._take_new_model(session_id, case.wire)
            self._goes_on(session_id)
            self._check_history(session_id)
        except Exception:
            self._rig.forget_session()
            raise
        end = first[-1]
        code = (end.get("error") or {}).get("code", "")
        return [(f"{case.wire} {case.kind}", f"{end['outcome']} {code}".strip())]

    def _take_new_model(self, session_id: str, wire: Wire) -> None:
        """Switches to a model without learned data: a window learned in one case must not affect the next."""
        self._models += 1
        model = {"model": f"{PROVIDERS[wire]}/model-{self._models}"}
        self._rig.http.patch(f"/v1/sessions/{session_id}", json=model).raise_for_status()

    def _goes_on(self, session_id: str) -> None:
        """Sends a message that is answered properly."""
        end = self._told(session_id, PLAIN, _well)[-1]
        if end["outcome"] != "completed":
            raise Crash(f"the next message ended as {end}")

    def _told(self, session_id: str, text: str, answer: Any) -> list[dict[str, Any]]:
        """Sends a message; the events of its run, the last of which is its end. The provider must have accepted the
        request."""
        self._rig.answers = answer
        refused = len(self._rig.provider.broken)
        events = self._rig.told(session_id, text)
        broken = [refusal for refusal in self._rig.provider.broken[refused:] if refusal.rule != "thinking"]
        if broken:
            raise Crash(f"the provider refused what followed: {broken}")
        if not events or events[-1]["event"] != "session.idle" or events[-1]["outcome"] not in OUTCOMES:
            raise Crash(f"the run ended as {events[-1:]}")
        return events

    def _check_history(self, session_id: str) -> None:
        """The history is readable, and every call in it has one result."""
        called: list[str] = []
        answered: list[str] = []
        after = ""
        while True:
            page = self._rig.http.get(f"/v1/sessions/{session_id}/messages{after}").raise_for_status().json()
            for message in page["items"]:
                for part in message["parts"]:
                    called += [part["call_id"]] if part["type"] == "tool_call" and not message.get("voided_at") else []
                    answered += [part["call_id"]] if part["type"] == "tool_result" else []
            if page["next_cursor"] is None:
                break
            after = f"?after={page['next_cursor']}"
        if sorted(called) != sorted(answered):
            raise Crash(f"calls {set(called) ^ set(answered)} have not one result each")


def _well(_: RecordedRequest) -> Scripted:
    return Reply(Text(WELL))


def _garbled(case: Answer) -> Any:
    """The case's bytes for the first requests of a run, then an end."""
    kind = "application/json" if case.is_json else "text/event-stream"
    given = [0]

    def answer(_: RecordedRequest) -> Scripted:
        given[0] += 1
        if given[0] > MAX_ROUNDS:
            return Reply(Text("Enough."))
        return HttpError(200, case.data, {"content-type": kind})

    return answer
