"""SSH for git: no configuration or keys of the server's user, known host keys only, and a private key that is in the
memory of an agent."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from app.errors import PalimpsestError

AGENT_S = 10.0
"""Seconds that an agent may take to start and to take a key."""
_OPTIONS = (
    *("BatchMode=yes", "StrictHostKeyChecking=yes", "UpdateHostKeys=no", "CheckHostIP=no", "IdentityFile=none"),
    *("PreferredAuthentications=publickey", "ClearAllForwardings=yes", "ControlPath=none", "ConnectTimeout=20"),
)


class KeyRefusedError(PalimpsestError):
    """The credential cannot be used: it is not a private key, has a passphrase, or no agent takes it."""

    status = 422
    code = "clone_unauthorized"
    title = "The repository cannot be cloned"


@dataclass(frozen=True, slots=True)
class SshHost:
    """Where to connect to: `address` is one of the host's. `known_hosts` is the file with its key; None is the
    machine's own, `/etc/ssh/ssh_known_hosts`."""

    name: str
    port: int
    address: str
    known_hosts: Path | None


@asynccontextmanager
async def ssh_environment(place: Path, host: SshHost, key: str | None) -> AsyncIterator[Mapping[str, str]]:
    """What git's environment needs while the context lasts; `place` is a private directory. Raises
    `KeyRefusedError`."""
    alias = host.name if host.port == 22 else f"[{host.name}]:{host.port}"
    files = ("/dev/null", "/etc/ssh/ssh_known_hosts") if host.known_hosts is None else (host.known_hosts, "/dev/null")
    options = (
        *_OPTIONS,
        *(f"HostName={host.address}", f"HostKeyAlias={alias}"),
        *(f'UserKnownHostsFile="{files[0]}"', f'GlobalKnownHostsFile="{files[1]}"'),
    )
    command = shlex.join(["ssh", "-F", "none", *(word for option in options for word in ("-o", option))])
    if key is None:
        yield {"GIT_SSH_COMMAND": command}
        return
    async with _agent(place / "agent", key) as socket:
        yield {"GIT_SSH_COMMAND": command, "SSH_AUTH_SOCK": socket}


@asynccontextmanager
async def _agent(socket: Path, key: str) -> AsyncIterator[str]:
    """An agent with a key; its socket."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "SSH_AUTH_SOCK": str(socket),
        "SSH_ASKPASS": "/bin/false",
    }
    nothing = asyncio.subprocess.DEVNULL
    try:
        agent = await asyncio.create_subprocess_exec(
            *("ssh-agent", "-D", "-a", str(socket)),
            env=environment,
            stdin=nothing,
            stdout=asyncio.subprocess.PIPE,
            stderr=nothing,
        )
    except FileNotFoundError as exc:
        raise _no_agent("is not installed on the server") from exc
    try:
        await _prepare(agent, key, environment)
        yield str(socket)
    finally:
        with suppress(ProcessLookupError):
            agent.kill()
        await asyncio.shield(agent.wait())


async def _prepare(agent: asyncio.subprocess.Process, key: str, environment: Mapping[str, str]) -> None:
    """Waits until the agent listens, and gives it the key. Raises `KeyRefusedError`."""
    assert agent.stdout is not None
    try:
        async with asyncio.timeout(AGENT_S):
            if not await agent.stdout.readline():  # it prints where it listens
                raise _no_agent("ends at once; the path of the server's data directory may be too long for it")
            await _add(key, {**environment, "SSH_ASKPASS_REQUIRE": "force"})
    except TimeoutError as exc:
        raise _no_agent(f"did not take the key within {AGENT_S:.0f} seconds") from exc


async def _add(key: str, environment: Mapping[str, str]) -> None:
    """Gives the agent a key. Raises `KeyRefusedError`."""
    nothing = asyncio.subprocess.DEVNULL
    add = await asyncio.create_subprocess_exec(
        *("ssh-add", "-q", "-"), env=environment, stdin=asyncio.subprocess.PIPE, stdout=nothing, stderr=nothing
    )
    try:
        await add.communicate(key.strip().encode() + b"\n")
    finally:
        with suppress(ProcessLookupError):
            add.kill()
        await asyncio.shield(add.wait())
    if add.returncode != 0:
        raise KeyRefusedError("The credential is not an SSH private key without a passphrase.")


def _no_agent(reason: str) -> KeyRefusedError:
    return KeyRefusedError(f"ssh-agent {reason}.", code="clone_failed")
