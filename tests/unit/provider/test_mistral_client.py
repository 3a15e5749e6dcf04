"""Mistral's own client against the fake: it takes what the fake sends, and the fake refuses what Mistral refuses."""

from __future__ import annotations

from typing import Any

import pytest
from mistralai.client import Mistral
from mistralai.client.errors import SDKError

from tests.provider import FakeProvider, Reply, Text, ToolCall

TOOL: Any = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object", "properties": {}}}}
ASKED: Any = [{"role": "system", "content": "Be good."}, {"role": "user", "content": "Read a."}]
FUNCTION = {"name": "read_file", "arguments": "{}"}
CALLED: Any = [
    {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001", "type": "function", "function": FUNCTION}]},
    {"role": "tool", "tool_call_id": "call00001", "content": "text of a"},
]


def stream(provider: FakeProvider, messages: Any) -> tuple[str, list[tuple[str, Any]], str | None]:
    """The text, the calls and the finish reason, as the client reads them."""
    text, calls, reason = "", [], None
    with (
        Mistral(api_key="key", server_url=provider.url) as client,
        client.chat.stream(model="mistral", messages=messages, tools=[TOOL]) as events,
    ):
        for event in events:
            for choice in event.data.choices:
                text += str(choice.delta.content or "")
                calls += [(c.function.name, c.function.arguments) for c in choice.delta.tool_calls or []]
                reason = choice.finish_reason or reason
    return text, calls, reason


def test_the_client_reads_texts_and_calls(provider: FakeProvider) -> None:
    provider.configure(insists=frozenset({"mistral"}))
    provider.script(Reply(Text("I look."), ToolCall("read_file", {"path": "a"}, whole=True)), Reply(Text("done")))
    text, calls, reason = stream(provider, ASKED)
    assert (text, calls, reason) == ("I look.", [("read_file", '{"path": "a"}')], "tool_calls")
    assert stream(provider, [*ASKED, *CALLED])[0] == "done"
    assert provider.refusals == []


@pytest.mark.parametrize("front", [[*ASKED, *CALLED], ASKED])
def test_the_client_is_refused_as_mistral_refuses(provider: FakeProvider, front: Any) -> None:
    provider.configure(insists=frozenset({"mistral"}))
    with pytest.raises(SDKError) as caught:
        stream(provider, [*front, {"role": "user", "content": "And b."}])
    assert caught.value.status_code == 400
    assert '"code":"3230"' in caught.value.body.replace(" ", "")
    bridged = [*front, {"role": "assistant", "content": "Understood."}, {"role": "user", "content": "And b."}]
    provider.script(Reply(Text("fine")))
    assert stream(provider, bridged)[0] == "fine"
