"""The ASGI application: routes, and the life of one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeAlias

from tests.provider.anthropic import ANTHROPIC
from tests.provider.connections import Connections
from tests.provider.desk import Desk
from tests.provider.dialect import Dialect
from tests.provider.listing import anthropic_models, openai_models, props
from tests.provider.openai import OPENAI
from tests.provider.player import Dropped, Message, Player, Send
from tests.provider.records import JSON, RecordedRequest, Refused
from tests.provider.responses import RESPONSES
from tests.provider.script import Answer, Gate, HttpError, Reply, StreamError, as_reply
from tests.provider.settings import Settings

Receive: TypeAlias = Callable[[], Awaitable[Message]]
Scope: TypeAlias = Any

DIALECTS: dict[str, Dialect] = {
    "/v1/chat/completions": OPENAI,
    "/v1/responses": RESPONSES,
    "/v1/messages": ANTHROPIC,
}


class App:
    """Speaks all formats; all state is in the desk."""

    def __init__(self, desk: Desk, connections: Connections) -> None:
        self._desk = desk
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        dialect = DIALECTS.get(scope["path"])
        if dialect is RESPONSES and not self._desk.settings.has_responses:
            dialect = None
        if dialect is not None and scope["method"] == "POST":
            await self._call(dialect, scope, headers, receive, send)
        else:
            await _unless_gone(self._look(scope, headers, send), receive)

    async def _look(self, scope: Scope, headers: dict[str, str], send: Send) -> None:
        """Answers everything except model calls."""
        settings = self._desk.settings
        query = scope["query_string"].decode("latin-1")
        self._desk.looked.append(scope["path"] + (f"?{query}" if query else ""))
        dialect = ANTHROPIC if "anthropic-version" in headers or scope["path"] == "/v1/messages" else OPENAI
        player = Player(send, self._desk.board, dialect, {})
        try:
            if settings.key is not None:
                dialect.authorize(headers, settings.key)
        except Refused as exc:
            await player.document(exc.status, dialect.error(exc), {})
            return
        given = settings.documents.get(scope["path"]) if scope["method"] == "GET" else None
        found = _found(dialect, settings, scope) if given is None or isinstance(given, Gate) else given
        before = [given] if isinstance(given, Gate) else []
        await player.play(iter([*before, found or HttpError(404)]), None)

    async def _call(
        self, dialect: Dialect, scope: Scope, headers: dict[str, str], receive: Receive, send: Send
    ) -> None:
        raw = await _body(receive)
        if raw is None:
            return
        request, refused = self._desk.take(dialect, headers, raw)
        player = Player(send, self._desk.board, dialect, {"request-id": f"req_{request.index}"})
        if refused is not None and request.stream and self._desk.settings.refuses_in_stream:
            error = StreamError(refused.kind, refused.message, refused.code)
            await player.play(dialect.stream(self._desk.answer(request, Reply(error))), None)
            return
        if refused is not None:
            body = dialect.error(refused) if refused.body is None else refused.body
            await player.document(refused.status, body, {})
            return
        await self._answer(request, player, scope, receive)

    async def _answer(self, request: RecordedRequest, player: Player, scope: Scope, receive: Receive) -> None:
        # After a reset, a client of the test before it may still leave.
        board = self._desk.board
        try:
            play = self._play(request, self._desk.choose(request), player)
            finished = await _unless_gone(play, receive)
        except Dropped as exc:
            drop = self._connections.reset if exc.how == "rst" else self._connections.close
            drop(scope["client"])
            await _gone(receive)
            return
        except Exception as exc:
            self._desk.script_errors.append(exc)
            raise
        with board.change():
            board.answered += finished
            board.left += not finished

    async def _play(self, request: RecordedRequest, answer: Answer, player: Player) -> None:
        reply = as_reply(answer)
        answering = self._desk.answer(request, reply)
        encode = player.dialect.stream if request.stream else player.dialect.whole
        await player.play(encode(answering), reply.pace)


def _found(dialect: Dialect, settings: Settings, scope: Scope) -> JSON | None:
    """The information document of this kind of server under a path, if any."""
    if (scope["method"], scope["path"]) == ("GET", "/v1/models"):
        return anthropic_models(settings) if dialect is ANTHROPIC else openai_models(settings)
    if (scope["method"], scope["path"]) == ("GET", "/props") and settings.overflow == "llama.cpp":
        return props(settings)
    return None


async def _body(receive: Receive) -> bytes | None:
    """The request's body; None if the client left before its end."""
    chunks: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _unless_gone(play: Coroutine[Any, Any, None], receive: Receive) -> bool:
    """Runs `play`, and stops it if the client leaves; returns whether it finished."""
    playing = asyncio.ensure_future(play)
    watching = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({playing, watching}, return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            await playing
        return playing.done()
    finally:
        for task in (playing, watching):
            task.cancel()
            with suppress(asyncio.CancelledError, Dropped):
                await task
