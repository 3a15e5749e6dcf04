"""A strict fake of the model providers, for tests: real HTTP in the OpenAI and the Anthropic format.

It refuses what the real ones refuse, counts tokens, keeps a prompt cache, and answers by script.

    with FakeProvider(window=8_000) as provider:
        provider.script(Reply(ToolCall("execute_command", {"command": "ls"})), Reply(Text("finished", chunks=3)))
        ...  # point a server at provider.openai_url or provider.url
        await provider.request_count(2)
        assert provider.refusals == []
"""

from tests.provider.records import RecordedRequest, Refusal
from tests.provider.script import (
    DONE,
    Answer,
    Begin,
    Delay,
    EndWithoutFinish,
    Gate,
    Hang,
    HttpError,
    Interleaved,
    Raw,
    Reasoning,
    Reply,
    Reset,
    StreamError,
    Text,
    Tokens,
    ToolCall,
)
from tests.provider.server import FakeProvider, running_provider
from tests.provider.settings import Settings

__all__ = [
    "DONE",
    "Answer",
    "Begin",
    "Delay",
    "EndWithoutFinish",
    "FakeProvider",
    "Gate",
    "Hang",
    "HttpError",
    "Interleaved",
    "Raw",
    "Reasoning",
    "RecordedRequest",
    "Refusal",
    "Reply",
    "Reset",
    "Settings",
    "StreamError",
    "Text",
    "Tokens",
    "ToolCall",
    "running_provider",
]
