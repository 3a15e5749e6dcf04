"""Clones: with a credential that nothing shows, within bounds, and from addresses that were checked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
import pytest

from app.errors import ForbiddenError, PalimpsestError
from app.sandbox.host import cloning
from app.sandbox.host.cloning import CloneError, Cloner, Repository
from app.sandbox.host.git_ssh import KeyRefusedError
from tests.git_server import GitServer, git_server

SECRET = "s3cret-of-the-repository"


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitServer]:
    (tmp_path / "git").mkdir()
    with git_server(tmp_path / "git") as server:
        monkeypatch.setenv("GIT_SSL_CAINFO", str(server.authority))
        server.commit({"a": "1", ".gitattributes": "a filter=evil\n", ".gitmodules": '[submodule "x"]\n'})
        yield server


# Named, since pytest puts a test's parameters into the environment of all that it starts.
@pytest.mark.parametrize("credential", [SECRET, f"somebody:{SECRET}"], ids=["password", "user and password"])
async def test_a_credential_is_in_no_file_argument_or_environment(
    git: GitServer, tmp_path: Path, credential: str
) -> None:
    git.password = SECRET
    cloner = Cloner(tmp_path / "clones", lambda _: True)
    async with cloner.cloned(Repository(git.url), credential, 10_000_000) as clone:
        held = [path.read_bytes() for path in (tmp_path / "clones").rglob("*") if path.is_file()]
        assert (clone.workspace.root / "a").read_text() == "1"
        assert not list((clone.workspace.root / ".git" / "hooks").glob("*"))
    assert len(held) > 5
    assert len(git.during) > 10
    assert not [data for data in (*held, *git.during) if SECRET.encode() in data]
    assert not list((tmp_path / "clones").iterdir())


async def test_an_error_does_not_repeat_the_credential(git: GitServer, tmp_path: Path) -> None:
    git.password = "another"
    with pytest.raises(CloneError) as failed:
        async with Cloner(tmp_path / "clones", lambda _: True).cloned(Repository(git.url), SECRET, 10_000_000):
            pass
    assert failed.value.code == "clone_unauthorized"
    assert SECRET not in failed.value.detail
    assert not list((tmp_path / "clones").iterdir())


async def test_a_clone_has_a_size(git: GitServer, tmp_path: Path) -> None:
    with pytest.raises(CloneError) as failed:
        async with Cloner(tmp_path / "clones", lambda _: True).cloned(Repository(git.url), None, 50_000):
            pass
    assert failed.value.code == "clone_too_large"


async def test_files_that_would_be_too_large_are_not_written(git: GitServer, tmp_path: Path) -> None:
    blob = git.object("blob", b"x" * 100_000)
    # Its name is too long for a file: an attempt to write it would be another error.
    git.point("bomb", git.commit_of({**{f"{number}": blob for number in range(100)}, "long" * 99: blob}))
    with pytest.raises(CloneError) as failed:
        async with Cloner(tmp_path / "clones", lambda _: True).cloned(Repository(git.url, "bomb"), None, 1_000_000):
            pass
    assert failed.value.code == "clone_too_large"


async def test_an_object_that_would_fill_the_memory_is_not_made(
    git: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloning, "MEMORY_BYTES", 240 * 2**20)
    cloner = Cloner(tmp_path / "clones", lambda _: True)
    async with cloner.cloned(Repository(git.url), None, 1_000_000_000) as clone:
        assert clone.commit
    base, large = git.delta(bytes(2**20), 240)
    git.point("bomb", git.commit_of({"base": base, "large": large}))
    with pytest.raises(CloneError, match="of memory") as failed:
        async with cloner.cloned(Repository(git.url, "bomb"), None, 1_000_000_000):
            pass
    assert failed.value.code == "clone_too_large"


async def test_a_history_that_an_old_program_wrote_is_cloned(git: GitServer, tmp_path: Path) -> None:
    first = git.commit_of({"a": git.object("blob", b"1")}, "A <> 1313584730 +051800")
    git.point("old", first)
    async with Cloner(tmp_path / "clones", lambda _: True).cloned(
        Repository(git.url, "old"), None, 10_000_000
    ) as clone:
        assert clone.commit == first
        assert (clone.workspace.root / "a").read_text() == "1"


async def test_git_connects_to_no_address_but_the_one_that_was_checked(git: GitServer, tmp_path: Path) -> None:
    with pytest.raises(ForbiddenError):
        async with Cloner(tmp_path / "clones").cloned(Repository(git.url), None, 10_000_000):
            pass
    checked: list[str] = []

    def note(address: str) -> bool:
        checked.append(address)
        return True

    # Nothing answers at another loopback address: a resolution of its own would lead git to the server.
    cloner = Cloner(tmp_path / "clones", note, resolve=lambda _: ["127.0.0.99"])
    with pytest.raises(CloneError, match="connect"):
        async with cloner.cloned(Repository(git.url), None, 10_000_000):
            pass
    assert checked == ["127.0.0.99"]
    assert git.asked == []


async def test_a_silent_name_server_takes_no_other_thread_and_clones_take_turns(tmp_path: Path) -> None:
    began, silent = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    asked: list[str] = []

    def unanswered(host: str) -> list[str]:
        asked.append(host)
        loop.call_soon_threadsafe(began.set)
        silent.wait()
        raise OSError

    cloner = Cloner(tmp_path, resolve=unanswered, most=1)

    async def clone(host: str) -> None:
        async with cloner.cloned(Repository(f"https://{host}/a.git"), None, 1):
            pass

    loop.set_default_executor(ThreadPoolExecutor(1))
    try:
        first, waiting, last = [asyncio.create_task(clone(host)) for host in ("one.test", "two.test", "three.test")]
        await began.wait()
        await asyncio.to_thread(str)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        assert asked == ["one.test"]
    finally:
        silent.set()
    for task in (first, last):
        with pytest.raises(CloneError) as failed:
            await task
        assert failed.value.code == "clone_host_unknown"
    assert asked == ["one.test", "three.test"]
    cloner.close()


KEY, ANOTHER = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))


def text_of(key: asyncssh.SSHKey) -> str:
    return key.export_private_key().decode()


@asynccontextmanager
async def ssh_server(git: GitServer, tmp_path: Path) -> AsyncIterator[tuple[str, Path]]:
    """A server that runs git for clients with `KEY`; a repository's URL, and a file with the host's key."""
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    (tmp_path / "authorized").write_bytes(KEY.export_public_key())

    async def run(process: asyncssh.SSHServerProcess[bytes]) -> None:
        asked = (process.command or "").removeprefix("git-")
        pipe = asyncio.subprocess.PIPE
        ran = await asyncio.create_subprocess_shell(f"git -c safe.directory='*' {asked}", stdin=pipe, stdout=pipe)
        assert ran.stdin is not None
        assert ran.stdout is not None

        async def feed(into: asyncio.StreamWriter) -> None:
            while data := await process.stdin.read(65536):
                into.write(data)
            into.close()

        feeding = asyncio.create_task(feed(ran.stdin))
        while data := await ran.stdout.read(65536):
            process.stdout.write(data)
        feeding.cancel()
        process.exit(await ran.wait())

    async with asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[host_key],
        authorized_client_keys=str(tmp_path / "authorized"),
        process_factory=run,
        encoding=None,
    ) as listener:
        port = listener.get_port()
        known = tmp_path / "known hosts"
        known.write_text(f"[localhost]:{port} {host_key.export_public_key().decode()}")
        yield f"ssh://git@localhost:{port}{git.folder}/project.git", known


async def test_an_agent_that_cannot_listen_is_a_failed_clone(git: GitServer, tmp_path: Path) -> None:
    cloner = Cloner(tmp_path / ("long" * 30), lambda _: True)
    with pytest.raises(KeyRefusedError) as failed:
        async with cloner.cloned(Repository("ssh://git@localhost:9/x"), text_of(KEY), 10_000_000):
            pass
    assert failed.value.code == "clone_failed"
    assert "ssh-agent" in failed.value.detail


async def test_ssh_takes_a_private_key_and_known_hosts_only(git: GitServer, tmp_path: Path) -> None:
    async with ssh_server(git, tmp_path) as (url, known):
        (tmp_path / "none").touch()
        for key, hosts, code in (
            (KEY, known, None),
            (KEY, tmp_path / "none", "clone_host_key_unknown"),
            (ANOTHER, known, "clone_unauthorized"),
            (None, known, "clone_unauthorized"),
        ):
            cloner = Cloner(tmp_path / "clones", lambda address: address == "127.0.0.1" or ":" in address, hosts)
            failed = None
            try:
                async with cloner.cloned(Repository(url), None if key is None else text_of(key), 10_000_000) as clone:
                    assert (clone.workspace.root / "a").read_text() == "1"
                    held = [path.read_bytes() for path in (tmp_path / "clones").rglob("*") if path.is_file()]
                    assert not [data for data in held if b"PRIVATE KEY" in data]
            except PalimpsestError as error:
                failed = error.code
            assert failed == code
            assert not list((tmp_path / "clones").iterdir())
        with pytest.raises(PalimpsestError, match="private key"):
            async with Cloner(tmp_path / "clones", lambda _: True, known).cloned(Repository(url), "no key", 10_000_000):
                pass
