"""Requests for files of a session that another node of the cluster runs: sent to that node, and its answers sent on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime
from typing import Literal

import httpx
import structlog
from fastapi import Request, Response

from app.api.errors import WrongHostError
from app.api.guard import TARGET
from app.api.responses import ArchiveResponse
from app.errors import StorageError, UnavailableError
from app.messages import rfc3339
from app.runtime.background import in_background
from app.runtime.services import Services
from app.runtime.values.server import NodeAddress

CONNECT_S = 2.0
"""Seconds to connect to another node."""

READ_S, CHANGE_S = 20.0, 60.0
"""Seconds of silence after which another node counts as dead or frozen, if nobody takes the session over meanwhile: for
reads, which then come from the newest snapshot, and for changes and forks, which may wait for a sandbox."""

LOOK_S = 0.5
"""Seconds between looks at who owns the session."""

HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade expect"
    b" content-length date server".split()
)
"""Headers of a connection, and those that each server sets itself."""

What = Literal["read", "change", "fork", "look", "restore"]
READS = ("read", "look")

log = structlog.get_logger(__name__)


async def forwarded(
    services: Services,
    request: Request,
    session_id: str,
    what: What = "read",
    body: bytes | AsyncIterable[bytes] | None = None,
) -> Response | None:
    """The answer of the node that has the session's files; None if they are read here: this node has them, no live node
    has them, or the one that has them does not answer. The client's key or login is sent along, so that the other node
    checks it again.

    Raises `UnavailableError` if that node got a request for a change or a fork and does not answer: it may have done
    what was asked. Raises `WrongHostError` for a request that was forwarded to another node than this one.
    """
    if (meant := request.headers.get(TARGET)) is not None:
        if meant != services.files.node:
            raise WrongHostError("This is not the node that the request was forwarded to.")
        return None
    if what in ("look", "restore"):
        node = await services.checkpoints.elsewhere(session_id)
    else:
        node = await services.files.elsewhere(session_id, changes=what == "change")
    if node is None:
        return None
    async with AsyncExitStack() as stack:
        try:
            async with _while_owned(services, session_id, node):
                answer = await _send(node, request, body, READ_S if what in READS else CHANGE_S, stack)
        except (httpx.HTTPError, TimeoutError) as error:
            reason = "it has lost the session" if isinstance(error, TimeoutError) else type(error).__name__
            log.warning("node_not_reached", session_id=session_id, node=node.id, reason=reason)
            if what not in READS and not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                raise UnavailableError("The node that runs the session does not answer; try again.") from error
            return None
        if answer.status_code == WrongHostError.status:
            log.warning("node_not_reached", session_id=session_id, node=node.id, reason="another one answers there")
            return None
        return _response(_Answer(answer, stack.pop_all()))
    return None


@asynccontextmanager
async def _while_owned(services: Services, session_id: str, node: NodeAddress) -> AsyncIterator[None]:
    """Raises `TimeoutError` once a third node has claimed the session: the one that was asked is dead or frozen."""
    async with asyncio.timeout(None) as wait:

        async def watch() -> None:
            while True:
                await asyncio.sleep(LOOK_S)
                with suppress(StorageError):
                    if await services.files.has_lost(session_id, node):
                        wait.reschedule(asyncio.get_running_loop().time())
                        return

        async with in_background(watch(), "owner-watch"):
            yield


async def _send(
    node: NodeAddress,
    request: Request,
    body: bytes | AsyncIterable[bytes] | None,
    silence_s: float,
    stack: AsyncExitStack,
) -> httpx.Response:
    client = await stack.enter_async_context(
        httpx.AsyncClient(
            # There is no TLS between nodes, whose certificates would be read from the disk for each request.
            transport=httpx.AsyncHTTPTransport(verify=False),
            timeout=httpx.Timeout(connect=CONNECT_S, read=silence_s, write=silence_s, pool=None),
            trust_env=False,
        )
    )
    query = request.scope["query_string"]
    sent = httpx.Request(
        request.method,
        f"http://{node.address}/",
        headers=[*_kept(request.scope["headers"]), (TARGET.encode(), node.id.encode())],
        content=body,
        # As it came: from a URL, the client would resolve `..`.
        extensions={"target": request.scope["raw_path"] + (b"?" + query if query else b"")},
    )
    answer = await client.send(sent, stream=True)
    stack.push_async_callback(answer.aclose)
    return answer


def _kept(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in HOP_BY_HOP]


class _Answer:
    """The body of another node's answer, as it comes: what the client does not take is not read."""

    def __init__(self, answer: httpx.Response, kept: AsyncExitStack) -> None:
        self.head = answer
        self._kept = kept

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self.head.aiter_raw():
                yield piece
        except httpx.HTTPError as error:
            raise UnavailableError("The response of the node that runs the session was cut off.") from error

    async def aclose(self) -> None:
        await self._kept.aclose()


def _response(answer: _Answer) -> Response:
    response = ArchiveResponse(answer, answer.head.status_code)
    length = [(b"content-length", value.encode()) for value in answer.head.headers.get_list("content-length")]
    response.raw_headers = [(name.lower(), value) for name, value in _kept(answer.head.headers.raw)] + length
    return response


def as_of_header(as_of: datetime | None) -> dict[str, str]:
    """`Workspace-As-Of` for what was read from a snapshot, else nothing."""
    return {} if as_of is None else {"Workspace-As-Of": rfc3339(as_of)}
