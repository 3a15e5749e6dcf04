"""The baseline for the service: a bare ASGI pass-through of a model's stream.

httpx with its default transport reads the stream line by line, and each event is forwarded as one event. It parses and
stores nothing; it runs on the same web server as the service.
"""

from __future__ import annotations

import sys

import httpx
import uvicorn
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope


class Floor:
    """`GET /MODEL` streams one response of that model."""

    def __init__(self, source_url: str) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._client = httpx.AsyncClient(base_url=source_url, limits=limits, timeout=60, trust_env=False)

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": False})
        request = {"model": scope["path"].strip("/"), "stream": True, "messages": [{"role": "user", "content": "go"}]}
        async with self._client.stream("POST", "/v1/chat/completions", json=request) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    body = f"event: text.delta\n{line}\n\n".encode()
                    await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


if __name__ == "__main__":
    uvicorn.run(Floor(sys.argv[2]), port=int(sys.argv[1]), log_level="warning", access_log=False, lifespan="off")
