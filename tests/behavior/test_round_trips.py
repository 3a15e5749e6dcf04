"""A project goes in, a run edits it, and the patch that comes out applies to the checkout that it came from."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, command, of_type
from tests.behavior.test_changes import apply, patch
from tests.behavior.test_cli import Terminal, terminal
from tests.git_server import GitServer, git_server
from tests.provider import FakeProvider, Reply, Text

__all__ = ["terminal"]

PROJECT = {
    "windows.txt": b"".join(b"line %d\r\n" % number for number in range(40)),
    "setup.bat": b"rem one\r\nrem two\r\n",
    ".gitattributes": b"*.bat text eol=crlf\n*.bin -diff\n",
    ".gitignore": b"*.log\n",
    "image.bin": bytes(range(256)) * 40,
    "old name.txt": b"".join(b"a line that stays %d\n" % number for number in range(20)),
    "run.sh": b"#!/bin/sh\n",
    "gone.txt": b"gone\n",
}
EDIT = """
sed -i 's/^line 7/line seven/' windows.txt; sed -i 's/two/2/' setup.bat; rm gone.txt; chmod 755 run.sh; mkdir docs
printf '\\000\\001changed' > image.bin; mv 'old name.txt' 'docs/new name.txt'; printf 'no newline' > docs/added
"""
FILES = {*PROJECT, "docs/new name.txt", "docs/added"} - {"gone.txt", "old name.txt"}
PASSWORD = "secret-of-the-repository"


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitServer]:
    """A git server that has the project and wants a password; `work` in its folder is a checkout."""
    (tmp_path / "git").mkdir()
    with git_server(tmp_path / "git") as server:
        monkeypatch.setenv("GIT_SSL_CAINFO", str(server.authority))
        for name, content in PROJECT.items():
            (tmp_path / "git" / "work" / name).write_bytes(content)
        server.commit({})
        server.password = PASSWORD
        yield server


def files_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Contents and executable bits, without the repository itself."""
    paths = [Path(above) / name for above, _, names in os.walk(folder) for name in names]
    inside = [(str(path.relative_to(folder)), path) for path in paths]
    return {
        name: (path.read_bytes(), path.stat().st_mode & stat.S_IXUSR)
        for name, path in inside
        if not name.startswith(".git/")
    }


def assert_applies(original: Path, difference: bytes, expected: dict[str, tuple[bytes, int]]) -> None:
    """A copy of the checkout has the same files after `git apply` as after the edit."""
    checkout = original.with_name("checkout")
    shutil.copytree(original, checkout, symlinks=True)
    apply(checkout, difference)
    assert files_of(checkout) == expected
    shutil.rmtree(checkout)


async def test_the_patch_of_a_run_applies_to_the_checkout_that_was_brought_in(
    start_server: StartServer, provider: FakeProvider, terminal: Terminal, git: GitServer, sandbox: str
) -> None:
    """As an archive, with `--dir`, from a git server that demands a credential, and with `--git`."""
    original = git.folder / "work"
    edited = git.folder / "edited"
    shutil.copytree(original, edited)
    await asyncio.to_thread(subprocess.run, ["sh", "-c", EDIT], cwd=edited, check=True)
    expected = files_of(edited)
    assert expected.keys() == FILES
    server = start_server(git_networks=("127.0.0.0/8",))
    provider.script(*[Reply(command(EDIT)), Reply(Text("Done."))] * 4)
    async with Client(server.url) as client:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            archive.add(original, ".")
        fields, parts = {"session": json.dumps({"task": "Edit."})}, {"archive": ("project.tar.gz", packed.getvalue())}
        made = await client.http.post("/v1/sessions", data=fields, files=parts)
        session_id = made.raise_for_status().json()["id"]
        await client.until_idle(session_id)
        assert_applies(original, await patch(client, session_id), expected)

        source = {"git": {"url": git.url, "credential": "TOKEN"}}
        session, events = await client.run("Edit.", source=source, secrets={"TOKEN": PASSWORD})
        assert of_type(events, "source.completed")[0].data["commit"] == git.git("rev-parse", "HEAD")
        assert_applies(original, await patch(client, session["id"]), expected)

    terminal.env["PALIMPSEST_URL"] = server.url
    given = terminal.folder / "changes.patch"
    await terminal.ok("run", "--dir", str(original), "--patch", given.name, "Edit.")
    assert_applies(original, given.read_bytes(), expected)

    git.password = None
    first = git.git("rev-parse", "HEAD")
    git.commit({"gone.txt": "different\n"})
    git.git("checkout", "--quiet", first)
    await terminal.ok("run", "--git", f"{git.url}@{first}", "--patch", given.name, "Edit.")
    assert_applies(original, given.read_bytes(), expected)
    refused = await terminal.run("run", "--git", "project.git@", "Edit.")
    assert (refused.status, "(bad_git)" in refused.err) == (2, True)
