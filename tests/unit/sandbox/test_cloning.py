"""Clones: with a credential that nothing shows, within bounds, and from addresses that were checked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import ForbiddenError
from app.sandbox.host.cloning import CloneError, Cloner, Repository
from tests.git_server import GitServer, git_server

SECRET = "s3cret-of-the-repository"


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitServer]:
    (tmp_path / "git").mkdir()
    with git_server(tmp_path / "git") as server:
        monkeypatch.setenv("GIT_SSL_CAINFO", str(server.authority))
        server.commit({"a": "1", ".gitattributes": "a filter=evil\n", ".gitmodules": '[submodule "x"]\n'})
        yield server


@pytest.mark.parametrize("credential", [SECRET, f"somebody:{SECRET}"])
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


async def test_git_connects_to_no_address_but_the_one_that_was_checked(git: GitServer, tmp_path: Path) -> None:
    with pytest.raises(ForbiddenError):
        async with Cloner(tmp_path / "clones").cloned(Repository(git.url), None, 10_000_000):
            pass
    checked: list[str] = []
    cloner = Cloner(tmp_path / "clones", lambda address: not checked.append(address))
    # Nothing answers at another loopback address: a resolution of its own would lead git to the server.
    loop = asyncio.get_running_loop()
    known = loop.getaddrinfo

    async def rebound(*_: object, **__: object) -> list[object]:
        return [(2, 1, 6, "", ("127.0.0.99", git.port))]

    loop.getaddrinfo = rebound  # type: ignore[method-assign, assignment]
    try:
        with pytest.raises(CloneError, match="connect"):
            async with cloner.cloned(Repository(git.url), None, 10_000_000):
                pass
    finally:
        loop.getaddrinfo = known  # type: ignore[method-assign]
    assert checked == ["127.0.0.99"]
    assert git.asked == []
