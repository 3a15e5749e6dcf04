"""Files in a container through the Engine's archive API: checked, downloaded and uploaded as tar.

The container need not run, and the Engine need not be on this host.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass

import aiodocker
import aiohttp

from app.sandbox.engine import Engine

PIECE = 64 * 1024
"""Bytes of an archive read at a time."""

# Go's os.FileMode bits, in which the Engine describes a path
_GO_DIRECTORY, _GO_LINK = 1 << 31, 1 << 27
_GO_TYPES = _GO_DIRECTORY | _GO_LINK | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19


@dataclass(frozen=True, slots=True)
class PathStatus:
    """The Engine's description of one path in a container; of a link itself, not its target."""

    mode: int
    size: int

    @property
    def is_link(self) -> bool:
        return bool(self.mode & _GO_LINK)

    @property
    def is_directory(self) -> bool:
        return bool(self.mode & _GO_DIRECTORY)

    @property
    def is_regular(self) -> bool:
        return not self.mode & _GO_TYPES


class ContainerArchives:
    """The content of one container, running or not. Methods raise what those of `Engine` raise."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self._container = container

    async def status(self, path: str) -> PathStatus | None:
        """The status of `path`; None if it does not exist."""
        async with self._engine.answering(self._engine.look_s):
            docker = self._engine.docker
            # not through aiodocker: it parses an error's body as JSON, and a response to HEAD has none
            url = f"{docker.docker_host}/{docker.api_version}/containers/{self._container}/archive"
            async with docker.session.head(url, params={"path": path}) as response:
                if response.status == 404:
                    return None
                if response.status != 200:
                    raise aiodocker.DockerError(response.status, f"It cannot look at {path!r}.")
                status = json.loads(base64.b64decode(response.headers["X-Docker-Container-Path-Stat"]))
        return PathStatus(int(status["mode"]), int(status["size"]))

    async def fetch(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yields `path` as a tar in pieces."""
        with self._engine.translated():
            # A timeout of the connection only, since the consumer may be slow.
            silence = aiohttp.ClientTimeout(sock_read=self._engine.answer_s)
            async with AsyncExitStack() as stack:
                async with self._engine.answering():
                    response = await stack.enter_async_context(self._archive(path, "GET", silence))
                # If abandoned halfway, its connection cannot be reused.
                stack.callback(response.close)
                async for piece in response.content.iter_chunked(PIECE):
                    yield piece

    async def put(self, path: str, archive: bytes | AsyncIterator[bytes]) -> None:
        """Unpacks a tar at `path`, with the owners it names."""
        async with self._engine.answering() as heard:
            data = archive if isinstance(archive, bytes) else _each(archive, heard)
            async with self._archive(path, "PUT", aiohttp.ClientTimeout(), data):
                pass

    def _archive(
        self,
        path: str,
        method: str,
        timeout: aiohttp.ClientTimeout,
        data: bytes | AsyncIterator[bytes] | None = None,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._engine.docker._query(
            f"containers/{self._container}/archive",
            method=method,
            params={"path": path},
            data=data,
            headers={"Content-Type": "application/x-tar"},
            timeout=timeout,
        )


async def _each(pieces: AsyncIterator[bytes], heard: Callable[[], None]) -> AsyncIterator[bytes]:
    async for piece in pieces:
        heard()
        yield piece
