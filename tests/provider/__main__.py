"""Runs the fake provider by hand: `python -m tests.provider --port 9000`."""

from __future__ import annotations

import argparse
import asyncio
import runpy
from typing import Any, get_args

from tests.provider.agent import echo_agent
from tests.provider.overflow import OverflowStyle
from tests.provider.server import FakeProvider

SCRIPT_HELP = """a Python file that sets `answers` (a list of replies and functions) or defines `answer(request)`;
without it the model makes two calls of execute_command and then repeats the user's message"""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.provider", description="A strict fake model provider.")
    parser.add_argument("--port", type=int, default=9000, help="port on 127.0.0.1, 0 for a free one (default: 9000)")
    parser.add_argument("--script", help=SCRIPT_HELP)
    parser.add_argument("--key", help="the API key to ask for; none by default")
    parser.add_argument("--window", type=int, default=128_000, help="context window in tokens (default: 128000)")
    parser.add_argument("--overflow", choices=get_args(OverflowStyle), help="how a prompt over the window is refused")
    parser.add_argument("--model", action="append", help="a model to list; may be repeated (default: fake-model)")
    return parser.parse_args()


def load(provider: FakeProvider, path: str | None) -> None:
    """Takes the script of a file, or the default one."""
    names: dict[str, Any] = runpy.run_path(path) if path else {"answer": echo_agent}
    if "answer" in names:
        provider.respond(names["answer"])
    else:
        provider.script(*names["answers"])


async def serve(options: argparse.Namespace) -> None:
    models = tuple(options.model or ["fake-model"])
    settings = {"key": options.key, "window": options.window, "overflow": options.overflow, "models": models}
    provider = FakeProvider(port=options.port, keep=100, **settings)
    load(provider, options.script)
    async with provider:
        print(f"OpenAI base URL {provider.openai_url}, Anthropic base URL {provider.url}", flush=True)
        seen = 0
        while True:
            requests = await provider.request_count(seen + 1, timeout=float("inf"))
            for request in [r for r in requests if r.index >= seen]:
                said = request.refusal.message if request.refusal else "accepted"
                print(f"{request.index} {request.wire} {request.model} {request.tokens} tokens: {said}", flush=True)
                seen = request.index + 1


def main() -> None:
    try:
        asyncio.run(serve(parse()))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
