"""The editor's folder and its copy in a session's workspace."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.cli.acp.updates import text_of
from app.cli.client import Client
from app.cli.packing import Folder, chosen, pack
from app.cli.run import bring
from app.cli.screen import ServerRefusedError, one_line

MAX_DIFFS = 50
"""Maximum number of a turn's files whose diffs are shown."""
RESET = (
    "The changes of your last turn did not fit the user's folder and were not applied to it. The workspace has been"
    " reset to the user's files."
)

Stamp = tuple[int, int, int]
"""Mode, size and modification time of a file: a different value means different content."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A file of the folder before and after; None for one that does not exist or is not text."""

    path: Path
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Applied:
    """What a turn changed in the folder. `problem` says why nothing was applied, and `patch` is then kept."""

    files: int
    differences: tuple[Difference, ...] = ()
    problem: str | None = None
    patch: Path | None = None


class Project:
    """Sends what the user has changed in a folder, and applies what a run has changed. The folder wins: it is never
    overwritten where both have changed."""

    def __init__(self, path: Path) -> None:
        """A folder whose workspace may differ in any file."""
        self.path = path
        self._sent: dict[str, Stamp] | None = None
        self._resets = False

    async def create(self, client: Client, body: dict[str, Any]) -> dict[str, Any]:
        """Creates a session with the files of the folder."""
        self._sent = await asyncio.to_thread(scan, self.path)
        return await bring(client, body, Folder(self.path), _ignore)

    async def send(self, client: Client, session_id: str) -> str | None:
        """Sends what has changed since the last turn. Returns what the model has to know about it."""
        now = await asyncio.to_thread(scan, self.path)
        known = self._sent
        resets = self._resets or (known is not None and self._lacks(known.keys() - now.keys()))
        changed = set(now) if known is None or resets else {name for name in now if now[name] != known.get(name)}
        if not (changed or resets):
            return None
        with tempfile.TemporaryFile() as archive:
            only = None if resets or known is None else sorted(changed)
            await asyncio.to_thread(lambda: pack(Folder(self.path), archive, _ignore, only=only))
            try:
                await client.unpack(session_id, archive, replace=resets)
            except ServerRefusedError as error:
                if error.code != "command_running":
                    raise
                return "The user's latest file changes could not be copied in while a command is running."
        note = RESET if self._resets else None
        self._sent, self._resets = now, False
        return note

    def _lacks(self, names: Collection[str]) -> bool:
        """Whether one of these files does not exist; others are ignored by git since they were sent."""
        return any(_stamp(self.path / name) is None for name in names)

    async def apply(self, client: Client, session_id: str, after: str | None) -> Applied | None:
        """Applies what the runs since the checkpoint `after` have changed, all of it or nothing. None if they changed
        nothing."""
        start = await _start(client, session_id, after)
        if start is None:
            return None
        changes = await client.call("GET", f"/v1/sessions/{session_id}/changes", params={"from": start})
        items: list[dict[str, Any]] = changes["items"]
        if not items:
            return None
        with tempfile.NamedTemporaryFile(prefix="palimpsest-", suffix=".patch", delete=False) as file:
            patch = Path(file.name)
            await client.patch(session_id, file, start)
        return await asyncio.to_thread(self._apply, patch, items)

    def _apply(self, patch: Path, items: list[dict[str, Any]]) -> Applied:
        names = sorted({name for item in items for name in (item["path"], item["old_path"]) if name})
        before = {name: text_of(self.path / name) for name in names[:MAX_DIFFS]}
        stamps = {name: _stamp(self.path / name) for name in names}
        problem = git_apply(self.path, patch)
        if problem is not None:
            self._resets = True
            return Applied(len(items), problem=problem, patch=patch)
        patch.unlink()
        if self._sent is not None:
            _update(self._sent, stamps, {name: _stamp(self.path / name) for name in names})
        differences = (Difference(self.path / name, text, text_of(self.path / name)) for name, text in before.items())
        return Applied(len(items), tuple(each for each in differences if each.before != each.after))


def scan(folder: Path) -> dict[str, Stamp]:
    """The files of a folder that a session gets. Blocks."""
    stamps = ((name, _stamp(folder / name)) for name in chosen(Folder(folder)))
    return {name: stamp for name, stamp in stamps if stamp is not None and not stat.S_ISDIR(stamp[0])}


def _stamp(path: Path) -> Stamp | None:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    return found.st_mode, found.st_size, found.st_mtime_ns


def _update(sent: dict[str, Stamp], before: Mapping[str, Stamp | None], after: Mapping[str, Stamp | None]) -> None:
    """Notes the files that are now the same on both sides. One that the user changed meanwhile is sent again."""
    for name, stamp in after.items():
        if stamp is None:
            sent.pop(name, None)
        elif before[name] == sent.get(name):
            sent[name] = stamp


async def _start(client: Client, session_id: str, after: str | None) -> str | None:
    """The checkpoint at the start of the first run after the one `after`; None if no run has used its workspace."""
    items = (await client.call("GET", f"/v1/sessions/{session_id}/checkpoints"))["items"]
    known = [place for place, item in enumerate(items) if item["id"] == after]
    new = items[known[0] + 1 :] if known else items
    return next((str(item["id"]) for item in new if item["reason"] == "run_started"), None)


def git_apply(folder: Path, patch: Path) -> str | None:
    """Applies a patch as a whole. Returns why it cannot be applied. git refuses paths that leave the folder, lead
    through links, or are in `.git`. Blocks."""
    git = shutil.which("git")
    if git is None:
        return "git is not installed"
    # Below the top of a repository, git would take the paths for those from its top.
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent), "LC_ALL": "C"}
    options = ["--whitespace=nowarn", "--no-ignore-whitespace", "-p1"]
    command = [git, "-c", "core.fsmonitor=false", "-c", "core.autocrlf=false", "apply", *options, str(patch)]
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True)  # noqa: S603 - fixed
    return None if ran.returncode == 0 else one_line(ran.stderr.decode("utf-8", "replace"), 500) or "git apply failed"


def _ignore(text: str) -> None:
    """An agent's standard error is the editor's log, where notes on packing help nobody."""
