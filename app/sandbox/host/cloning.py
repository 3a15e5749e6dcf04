"""Git repositories, cloned on the host into their own directory, for workspaces that get their files from there.

Git runs without the configuration, hooks and environment of the server's user, without submodules and filters, with
`https` and `ssh` only, and connects to an address that was checked: names are resolved here, not by git.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from app.errors import ForbiddenError, InvalidRequestError, PalimpsestError
from app.sandbox.egress.gateway import may_be_reached
from app.sandbox.host.directories import delete_tree
from app.sandbox.host.disk import ENTRY_BYTES, count
from app.sandbox.host.git_ssh import SshHost, ssh_environment
from app.sandbox.host.workspace import Workspace
from app.sandbox.names import Resolve, Resolver, resolve

CLONE_S = 600.0
"""Seconds that a clone may take."""
LEFT_S = 2 * CLONE_S
"""Age in seconds from which a clone is one that was left."""
MOST_CLONES = 4
"""Clones at the same time. Each may take as much of the data directory's disk as a sandbox."""
MEMORY_BYTES = 3 * 1024 * 1024 * 1024
"""Address space of a git process; the history of the Linux kernel needs half of it. A few bytes of a pack can describe
an object of any size, which git makes in memory."""
RESOLVE_S = 10.0
"""Seconds for the lookup of a name."""
MESSAGE_BYTES = 64 * 1024
"""Bytes of git's messages that are read for its error."""
PORTS = {"https": 443, "ssh": 22}
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f.:]+\]|[A-Za-z0-9_.][A-Za-z0-9_.\-]*)(?::[0-9]*)?")
"""A host with its port; Python also takes brackets with something around them."""
_FORWARDED = ("PATH", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables of the server that git gets: which certificate authorities are trusted."""
_CONFIG = (
    *("protocol.allow=never", "protocol.https.allow=always", "protocol.ssh.allow=always"),
    *("http.followRedirects=false", "http.proxy=", "core.hooksPath=/dev/null", "core.fsmonitor=false"),
    *("submodule.recurse=false", "fetch.recurseSubmodules=false", "credential.helper=", "gc.auto=0"),
    *("maintenance.auto=false", "advice.detachedHead=false", "transfer.fsckObjects=true", "core.askPass=/bin/false"),
    # What comes is in one file, whose size has a limit.
    "fetch.unpackLimit=1",
    # Packs are mapped piece by piece, and each thread takes address space.
    *("core.packedGitWindowSize=64m", "core.packedGitLimit=512m", "pack.threads=2"),
    # Harmless, and in the histories of many repositories, since old programs wrote it.
    *(
        f"fetch.fsck.{name}=ignore"
        for name in (
            *("badDate", "badDateOverflow", "badEmail", "badName", "badTimezone", "missingEmail", "multipleAuthors"),
            *("missingNameBeforeEmail", "missingSpaceBeforeDate", "missingSpaceBeforeEmail", "zeroPaddedDate"),
            "zeroPaddedFilemode",
        )
    ),
)


TOKEN_USER = "x-access-token"  # noqa: S105 - a user
"""The user that is sent with a token; GitHub wants this one, and others take any."""
_UNAUTHORIZED = ("Authentication failed", "could not read Username", "could not read Password")
_NO_REF = ("not found in upstream", "couldn't find remote ref", "not our ref")
"""What git's fatal messages contain."""


class CloneError(PalimpsestError):
    """A repository could not be cloned; `code` says why."""

    status = 422
    code = "clone_failed"
    title = "The repository cannot be cloned"


@dataclass(frozen=True, slots=True)
class Repository:
    """What to clone. Without `ref` it is the default branch; `depth` is the number of commits of its history, None for
    all of it."""

    url: str
    ref: str | None = None
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class Clone:
    """The files of a clone, with `.git`, and the hash of its commit."""

    workspace: Workspace
    commit: str


class Cloner:
    """Clones into directories below its own one."""

    def __init__(
        self,
        folder: Path,
        may_reach: Callable[[str], bool] = may_be_reached,
        known_hosts: Path | None = None,
        *,
        resolve: Resolve = resolve,
        most: int = MOST_CLONES,
    ) -> None:
        """`may_reach` tells whether an IP address may be connected to; `known_hosts` is as in `SshHost`. At most `most`
        clones exist at the same time; further ones wait for their turn."""
        self._folder = folder
        self._known_hosts = known_hosts
        self._resolver = Resolver(resolve)
        self._turns = asyncio.Semaphore(most)
        self.may_reach = may_reach

    def close(self) -> None:
        self._resolver.close()

    def clear(self) -> None:
        """Removes what servers that were killed have left, but no clone of another one that runs. Blocks."""
        if self._folder.is_dir():
            for left in self._folder.iterdir():
                if left.stat().st_mtime < time.time() - LEFT_S:
                    delete_tree(left)

    @asynccontextmanager
    async def cloned(self, wanted: Repository, credential: str | None, most_bytes: int) -> AsyncIterator[Clone]:
        """A clone of at most `most_bytes`, which is removed at the end. For HTTPS, `credential` is a password or token,
        or a user and a password separated by a colon; for SSH, a private key. Raises `CloneError`, `KeyRefusedError`,
        `InvalidRequestError` and `ForbiddenError`."""
        host, port = check_url(wanted.url)
        async with self._turns, self._place() as place:
            # Resolved here, since git could get a different answer; and after the wait, which can be long.
            addresses = await self._addresses(host)
            if wanted.url.startswith("ssh:"):
                ssh = SshHost(host, port, addresses[0], self._known_hosts)
                async with ssh_environment(place, ssh, credential) as environment:
                    git = _Git(place, most_bytes, None, environment)
                    await git.clone(wanted)
            else:
                git = _Git(place, most_bytes, credential)
                pinned = () if ":" in host else (f"http.curloptResolve={host}:{port}:{','.join(addresses)}",)
                await git.clone(wanted, *pinned)
            if (await asyncio.to_thread(count, [place])).used > most_bytes:
                raise _too_large(most_bytes)
            yield Clone(Workspace(place / "clone"), await git.commit())

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[Path]:
        """A new directory, which is removed at the end."""
        place = self._folder / secrets.token_hex(8)
        await asyncio.to_thread(place.mkdir, 0o700, parents=True)
        try:
            yield place
        finally:
            await asyncio.shield(asyncio.to_thread(delete_tree, place))

    async def _addresses(self, host: str) -> list[str]:
        """The addresses of a host, if all of them may be reached."""
        try:
            async with asyncio.timeout(RESOLVE_S):
                addresses = await self._resolver.addresses(host)
        except (OSError, UnicodeError, TimeoutError) as exc:
            raise CloneError(f"The host name {host} cannot be resolved.", code="clone_host_unknown") from exc
        if refused := [each for each in addresses if not self.may_reach(each)]:
            raise not_allowed(host, refused[0])
        return addresses


def not_allowed(host: str, address: str) -> ForbiddenError:
    return ForbiddenError(
        f"The host {host} has the address {address}, which is private or this machine's; PALIMPSEST_GIT_NETWORKS can"
        " allow it.",
        code="source_not_allowed",
    )


def check_url(url: str) -> tuple[str, int]:
    """The host and port of a repository's URL. Raises `InvalidRequestError` (`invalid_source`) for another scheme and
    for a URL with a password."""
    # What git would read in another way is refused: escapes in a host's name, and characters that Python leaves out.
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _invalid("is not a URL") from None
    if parts.scheme not in PORTS or not host or re.search(r"[\x00-\x20\x7f]", url):
        raise _invalid("must begin with https:// or ssh:// and have a host")
    if parts.password is not None or (parts.username is not None and parts.scheme == "https"):
        raise _invalid("must not contain a user or password; name a secret in `credential`")
    if parts.query or parts.fragment or not _HOST.fullmatch(parts.netloc.rpartition("@")[2]):
        raise _invalid("is not the URL of a repository")
    if parts.username is not None and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", parts.username):
        raise _invalid("has an invalid user")
    return host, port or PORTS[parts.scheme]


def _invalid(reason: str) -> InvalidRequestError:
    return InvalidRequestError(f"source.git.url {reason}.", code="invalid_source")


def _too_large(most_bytes: int) -> CloneError:
    return CloneError(f"The clone would take more than {most_bytes / 2**20:,.0f} MiB.", code="clone_too_large")


Read = Callable[[asyncio.StreamReader], Awaitable[bytes]]
"""Reads a stream to its end."""


async def _first_bytes(stream: asyncio.StreamReader) -> bytes:
    """The first bytes of a stream, which is read to its end."""
    held = bytearray()
    while piece := await stream.read(MESSAGE_BYTES):
        held += piece[: MESSAGE_BYTES - len(held)]
    return bytes(held)


class _Git:
    """git in one directory, with at most `most_bytes` in a file and in all files that are checked out, and with
    `MEMORY_BYTES`."""

    def __init__(
        self, place: Path, most_bytes: int, credential: str | None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._more = environment or {}
        self._place = place
        self._most_bytes = most_bytes
        self._credential = credential

    async def clone(self, wanted: Repository, *config: str) -> None:
        """Clones into `clone`. A hash is fetched by itself, since `git clone` takes only names."""
        depth = () if wanted.depth is None else (f"--depth={wanted.depth}",)
        try:
            async with asyncio.timeout(CLONE_S):
                if wanted.ref is not None and _HASH.fullmatch(wanted.ref):
                    await self._run("init", "--quiet", "--template=", "clone")
                    await self._run("-C", "clone", "remote", "add", "origin", wanted.url)
                    await self._lent("-C", "clone", "fetch", "--quiet", *depth, "origin", wanted.ref, config=config)
                    await self._check_out(wanted.ref, "--detach", wanted.ref)
                else:
                    branch = () if wanted.ref is None else (f"--branch={wanted.ref}",)
                    options = ("--quiet", "--template=", "--no-checkout", "--no-recurse-submodules", *depth, *branch)
                    await self._lent("clone", *options, "--", wanted.url, "clone", config=config)
                    await self._check_out("HEAD")
        except TimeoutError as exc:
            raise CloneError(f"The clone took more than {CLONE_S:.0f} seconds.", code="clone_timeout") from exc

    async def _check_out(self, commit: str, *how: str) -> None:
        """Writes the files if they are not too large: a few objects can become any number of files of any size."""
        await self._run("-C", "clone", "ls-tree", "-r", "-t", "-l", "-z", commit, read=self._check_size)
        await self._run("-C", "clone", "checkout", "--quiet", *how)

    async def _check_size(self, listed: asyncio.StreamReader) -> bytes:
        """Reads the entries that `git ls-tree` prints. Raises `CloneError` (`clone_too_large`)."""
        left, rest = self._most_bytes, b""
        while piece := await listed.read(MESSAGE_BYTES):
            *records, rest = (rest + piece).split(b"\0")
            for record in records:
                size = record.partition(b"\t")[0].split()[-1]
                left -= max(ENTRY_BYTES, int(size) if size.isdigit() else 0)
            if left < 0:
                raise _too_large(self._most_bytes)
        return b""

    async def commit(self) -> str:
        """The hash of the commit that is checked out."""
        return (await self._run("-C", "clone", "rev-parse", "--verify", "HEAD^{commit}")).strip()

    async def _lent(self, *arguments: str, config: Sequence[str]) -> None:
        """Runs git with the credential, in memory that only its processes have: neither arguments, environment nor a
        file name it."""
        if self._credential is None:
            await self._run(*arguments, config=config)
            return
        if "\n" in self._credential:
            raise CloneError("The credential has a line break.", code="clone_unauthorized")
        user, colon, password = self._credential.partition(":")
        user, password = (user, password) if colon else (TOKEN_USER, self._credential)
        lent = os.memfd_create("credential", 0)
        try:
            await asyncio.to_thread(os.write, lent, f"username={user}\npassword={password}\n".encode())
            helper = f'credential.helper=!f() {{ test "$1" != get || cat /dev/fd/{lent}; }}; f'
            await self._run(*arguments, config=[*config, helper], lent=lent)
        finally:
            os.close(lent)

    async def _run(
        self, *arguments: str, config: Sequence[str] = (), lent: int | None = None, read: Read = _first_bytes
    ) -> str:
        """What git prints, as `read` returns it. Raises `CloneError` and what `read` raises; then, and when cancelled,
        git and its helpers are dead."""
        bounds = (str(self._most_bytes // 512 + 1), str(MEMORY_BYTES // 1024))
        options = [argument for setting in (*_CONFIG, *config) for argument in ("-c", setting)]
        process = await asyncio.create_subprocess_exec(
            *(
                "/bin/sh",
                "-c",
                'ulimit -f "$1"; ulimit -v "$2"; shift 2; exec git "$@"',
                "sh",
                *bounds,
                *options,
                *arguments,
            ),
            cwd=self._place,
            env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            pass_fds=() if lent is None else (lent,),
        )
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            printed, messages = await asyncio.gather(read(process.stdout), _first_bytes(process.stderr))
            await process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())
        if process.returncode == 127:  # the shell has not found it
            raise CloneError("git is not installed on the server.", code="git_missing")
        if process.returncode != 0:
            raise self._failure(messages.decode("utf-8", "replace"))
        return printed.decode("utf-8", "replace")

    def _environment(self) -> Mapping[str, str]:
        forwarded = {name: os.environ[name] for name in _FORWARDED if name in os.environ}
        return {
            "PATH": os.defpath,
            **forwarded,
            "HOME": str(self._place),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C.UTF-8",
            **self._more,
        }

    def _failure(self, messages: str) -> CloneError:
        """The error for git's messages, some of which the repository's server wrote."""
        fatal = [line.removeprefix("fatal: ") for line in messages.splitlines() if line.startswith("fatal: ")]
        if "Host key verification failed" in messages:
            return CloneError("The key of the SSH host is not known to the server.", code="clone_host_key_unknown")
        if "Permission denied (" in messages:
            return CloneError("The SSH host accepted none of the server's keys.", code="clone_unauthorized")
        if any(line.startswith("Out of memory") for line in fatal):
            needs = f"The repository needs more than {MEMORY_BYTES / 2**20:,.0f} MiB of memory."
            return CloneError(needs, code="clone_too_large")
        detail = fatal[0] if fatal else "git ended without a message"
        for secret in (self._credential, *(self._credential or "").split(":")):
            detail = detail.replace(secret, "[credential]") if secret else detail
        detail = f"git: {detail[:500].rstrip('.')}."
        if any(words in line for line in fatal for words in _UNAUTHORIZED):
            return CloneError(detail, code="clone_unauthorized")
        if any(words in line for line in fatal for words in _NO_REF):
            return CloneError(detail, code="clone_ref_not_found")
        return CloneError(detail)
