"""A model for measurements: an ASGI app that streams Chat Completions as cheaply as possible.

The model's name sets its behavior:

- `stream-RATE-COUNT` streams COUNT tokens at RATE a second. Each token is a stamp of the time it was sent.
- `work-RATE-COUNT` does so in each step and then calls a tool, so that a run never ends. `GET /sent` gives the number
  of tokens sent to all.
- `steps-NAME` calls a tool in each step until the number of steps set with `PUT /plan/steps-NAME/N/MS` is used up, then
  answers with one word; it thinks for MS milliseconds each time. `GET /calls/steps-NAME` gives the times at which each
  call arrived and was answered, and the time at which its body was complete.
- `echo-NAME` does the same with a call that runs one `echo`, and `bash-NAME` with OpenCode's tool.
- any other name answers with one word at once; its times are recorded too.

Times are `time.monotonic()`, which is the same clock for all processes of a machine.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections import defaultdict

import orjson
import uvicorn
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

STAMP = re.compile(rb"~([0-9a-f]{8})")
STAMP_RANGE = 1 << 32
_MODEL = re.compile(rb'"model":\s*"([^"]+)"')
_HEADERS = [(b"content-type", b"text/event-stream")]


def stamp() -> str:
    """The current time in microseconds, in eight hex digits: it wraps after 71 minutes."""
    return f"~{time.monotonic_ns() // 1000 % STAMP_RANGE:08x}"


def age_ms(text: bytes, now: float) -> float:
    """The age of a stamp's eight digits at the monotonic time `now` in seconds."""
    age = (int(now * 1e6) - int(text, 16)) % STAMP_RANGE
    # Rounding may put a new stamp a microsecond into the future.
    return 0.0 if age > STAMP_RANGE - 1000 else age / 1000


def chunk(delta: dict[str, object], finish_reason: str | None = None) -> bytes:
    """One event of the stream, with OpenAI's fields."""
    document = {
        "id": "chatcmpl-measure0000000000000000000000",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": "measure",
        "system_fingerprint": None,
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}],
    }
    return b"data: " + orjson.dumps(document) + b"\n\n"


_BEFORE, _AFTER = chunk({"content": "@@"}).split(b"@@")


def end_of(body: bytes) -> bytes:
    """The end of the response to a request, with a token count like a real model's: a count that does not grow with the
    conversation would look like a truncated prompt."""
    prompt = len(body) // 4
    usage = {"prompt_tokens": prompt, "completion_tokens": 10, "total_tokens": prompt + 10}
    document = {"id": "chatcmpl-measure", "object": "chat.completion.chunk", "choices": [], "usage": usage}
    return b"data: " + orjson.dumps(document) + b"\n\ndata: [DONE]\n\n"


def plan_call(item: str) -> bytes:
    """The end of a response that calls `update_plan`, which runs no command, with one item."""
    return tool_call("update_plan", {"items": [{"text": item, "status": "in_progress"}]})


def tool_call(name: str, arguments: dict[str, object]) -> bytes:
    """The end of a response that calls a tool."""
    function = {"name": name, "arguments": orjson.dumps(arguments).decode()}
    call = {"index": 0, "id": "call_0", "type": "function", "function": function}
    return chunk({"tool_calls": [call]}) + chunk({}, "tool_calls")


class Source:
    """The app. One instance serves a whole run of the benchmarks."""

    def __init__(self) -> None:
        self._plans: dict[str, int] = defaultdict(int)
        self._thinking_s: dict[str, float] = defaultdict(float)
        self._calls: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
        self._sent = 0

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        begun = time.monotonic()
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        if scope["path"] == "/v1/chat/completions":
            await self._complete(begun, receive, send)
        else:
            await _reply(send, self._control(scope["path"].strip("/").split("/")))

    def _control(self, words: list[str]) -> object:
        match words:
            case ["plan", model, steps, thinking_ms]:
                self._plans[model] = int(steps)
                self._thinking_s[model] = int(thinking_ms) / 1000
                self._calls[model].clear()
                return {}
            case ["calls", model]:
                return self._calls[model]
            case ["sent"]:
                return self._sent
        return {"ready": True}

    async def _complete(self, begun: float, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        body = await _body(receive)
        received = time.monotonic()
        found = _MODEL.search(body)
        model = found[1].decode() if found else ""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS, "trailers": False})
        kind, *numbers = model.split("-")
        if kind in ("stream", "work"):
            await self._tokens(send, float(numbers[0]), int(numbers[1]))
            # Each call changes the plan, as a real model's calls do.
            last = chunk({}, "stop") if kind == "stream" else plan_call(f"after token {self._sent}")
            await _end(send, last + end_of(body))
            return
        await asyncio.sleep(self._thinking_s[model])
        answer = self._call(model) if self._plans[model] > 0 else chunk({"content": "done"}) + chunk({}, "stop")
        self._calls[model].append((begun, time.monotonic(), received))
        await _end(send, answer + end_of(body))

    def _call(self, model: str) -> bytes:
        self._plans[model] -= 1
        if model.startswith("echo-"):
            return tool_call("execute_command", {"command": "echo measured"})
        if model.startswith("bash-"):
            return tool_call("bash", {"command": "echo measured", "description": "Prints a word"})
        return plan_call("measure")

    async def _tokens(self, send: ASGISendCallable, rate: float, count: int) -> None:
        """Sends tokens on a fixed schedule: a late token does not delay the others."""
        start = time.monotonic()
        for number in range(count):
            await asyncio.sleep(start + number / rate - time.monotonic())
            token = _BEFORE + stamp().encode() + _AFTER
            await send({"type": "http.response.body", "body": token, "more_body": True})
            self._sent += 1


async def _body(receive: ASGIReceiveCallable) -> bytes:
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"".join(pieces)
        pieces.append(message["body"])
        if not message["more_body"]:
            return b"".join(pieces)


async def _end(send: ASGISendCallable, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _reply(send: ASGISendCallable, document: object) -> None:
    body = orjson.dumps(document)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": False})
    await _end(send, body)


if __name__ == "__main__":
    uvicorn.run(
        Source(),
        port=int(sys.argv[1]),
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_keep_alive=600,
    )
