"""Where a workspace's files come from: what a request may name, and the clone of a git repository."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator
from typing import Any

from sqlalchemy import Row

from app.errors import InvalidRequestError
from app.runtime.values.sessions import GitSource, Source
from app.sandbox.base import Sandbox
from app.sandbox.host.cloning import CloneError, Cloner, Repository, check_url, not_allowed
from app.sandbox.tar import gathered

SecretOf = Callable[[str, str], Awaitable[str | None]]
"""The value of a session's secret by the session's id and the secret's name; None if there is none."""


async def no_secret(session_id: str, name: str) -> str | None:
    """For a server whose sessions have no secrets."""
    return None


def is_due(row: Row[Any]) -> bool:
    """Whether a session's source has not been brought into its workspace yet."""
    return "git" in (row.source or ()) and row.source_commit is None


class Sources:
    """The sources of one server."""

    def __init__(self, cloner: Cloner, most_bytes: int, secret_of: SecretOf = no_secret) -> None:
        """`most_bytes` of a clone."""
        self._cloner = cloner
        self._most_bytes = most_bytes
        self._secret_of = secret_of

    def close(self) -> None:
        self._cloner.close()

    def check(self, source: Source | None, secrets: Collection[str] = ()) -> None:
        """Raises `InvalidRequestError` (`invalid_source`, `unknown_secret`) and `ForbiddenError` (`source_not_allowed`)
        for a source that a new session with these secrets may not have. Names of hosts are checked when they are
        resolved, for each clone."""
        if source is None:
            return
        host, _ = check_url(source.git.url)
        if _is_address(host) and not self._cloner.may_reach(host):
            raise not_allowed(host, host)
        if source.git.credential is not None and source.git.credential not in secrets:
            raise InvalidRequestError(
                f"The session has no secret {source.git.credential!r}, which source.git.credential names.",
                code="unknown_secret",
            )

    async def bring(self, session_id: str, git: GitSource, sandbox: Callable[[], Awaitable[Sandbox]]) -> str:
        """Clones into the sandbox's workspace, over the files that it has; returns the hash of the commit."""
        credential = None
        if git.credential is not None:
            credential = await self._secret_of(session_id, git.credential)
            if credential is None:
                raise CloneError(f"The session has no secret {git.credential!r}.", code="clone_unauthorized")
        wanted = Repository(git.url, git.ref, git.depth)
        async with self._cloner.cloned(wanted, credential, self._most_bytes) as clone:
            into = await sandbox()
            await into.unpack(_in_thread(gathered(clone.workspace.archive())))
            return clone.commit


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def _in_thread(pieces: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece
