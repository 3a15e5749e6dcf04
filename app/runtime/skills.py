"""Skills of workspaces, and those of the operator, which are copied into a workspace when the model reads one."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import tarfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from app.context.skills import FOLDER, MAX_SKILL_BYTES, MAX_SKILLS, SKILL_FILE, Skill, parse_skill
from app.errors import ForbiddenError, InvalidRequestError, NotFoundError, TooLargeError
from app.sandbox.base import Sandbox

FOLDERS = (".agents/skills", ".claude/skills")
"""Where workspaces have skills; of two with one name, the first counts."""
COPIES = ".palimpsest/skills"
"""Where the operator's skills are in a workspace."""
MAX_COPY_BYTES, MAX_COPY_FILES = 8 * 1024 * 1024, 500
"""Maximum bytes and files of a skill that are copied."""
log = structlog.get_logger(__name__)


async def workspace_skills(sandbox: Sandbox) -> tuple[Skill, ...]:
    """The skills of a workspace, which exists. Raises what the sandbox raises if it does not answer."""
    found = [skill for folder in FOLDERS for skill in await _skills_in(sandbox, folder)]
    return tuple(found[:MAX_SKILLS])


async def _skills_in(sandbox: Sandbox, folder: str) -> list[Skill]:
    if not await is_folder(sandbox, folder):
        return []
    try:
        entries = await sandbox.list(folder, limit=5 * MAX_SKILLS)
    except (NotFoundError, InvalidRequestError, ForbiddenError):
        return []
    names = [entry.path.rpartition("/")[2] for entry in entries if entry.type in ("directory", "symlink")]
    paths = [f"{folder}/{name}/{SKILL_FILE}" for name in names if FOLDER.fullmatch(name)][:MAX_SKILLS]
    found = [(path, await _text(sandbox, path)) for path in paths]
    # In a thread: untrusted files may take a while to parse.
    parsed = await asyncio.to_thread(lambda: [parse_skill(text, path) for path, text in found if text])
    return [skill for skill in parsed if skill is not None]


async def is_folder(sandbox: Sandbox, path: str) -> bool:
    """Whether there may be a folder. Listing one starts a container, which reading does not; most workspaces have no
    skills."""
    try:
        await sandbox.read(path, max_bytes=0)
    except InvalidRequestError:
        return True
    except (NotFoundError, ForbiddenError, TooLargeError):
        return False
    return False


async def _text(sandbox: Sandbox, path: str) -> str:
    try:
        data = await sandbox.read(path, max_bytes=MAX_SKILL_BYTES)
    except (NotFoundError, InvalidRequestError, ForbiddenError, TooLargeError):
        return ""
    return data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class OperatorSkills:
    """The skills in the operator's folder, as they were at the start of the server: every prompt names them."""

    folder: Path | None = None
    skills: tuple[Skill, ...] = ()

    @classmethod
    def read(cls, folder: Path | None) -> OperatorSkills:
        """Blocks. Raises `OSError` if the folder cannot be read; one of a skill that cannot be used is left out."""
        if folder is None:
            return cls()
        names = sorted(entry.name for entry in os.scandir(folder) if FOLDER.fullmatch(entry.name))
        found = [_read(folder, name) for name in names]
        return cls(folder, tuple(skill for skill in found if skill is not None)[:MAX_SKILLS])

    def folder_of(self, parts: Sequence[str]) -> str | None:
        """The name of the skill's folder that a path in a workspace leads to, judging by its names; None if there is
        none."""
        copies = tuple(COPIES.split("/"))
        if len(parts) <= len(copies) or tuple(parts[: len(copies)]) != copies:
            return None
        name = parts[len(copies)]
        return name if any(skill.path.startswith(f"{COPIES}/{name}/") for skill in self.skills) else None

    async def copy(self, name: str, sandbox: Sandbox) -> None:
        """Copies a skill's files into a workspace."""
        assert self.folder is not None
        await sandbox.unpack(_once(await asyncio.to_thread(_packed, self.folder / name, f"{COPIES}/{name}")))


def _read(folder: Path, name: str) -> Skill | None:
    try:
        with (folder / name / SKILL_FILE).open("rb") as file:
            data = file.read(MAX_SKILL_BYTES + 1)
    except OSError:
        return None
    skill = parse_skill(data.decode("utf-8", "replace"), f"{COPIES}/{name}/{SKILL_FILE}")
    if skill is None or len(data) > MAX_SKILL_BYTES:
        log.warning("skill_unusable", folder=str(folder / name), detail="It has no front matter with a name.")
        return None
    return skill


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _packed(folder: Path, name: str) -> bytes:
    """A tar of the regular files in a folder, under another name; links are left out, and so is what exceeds the
    limits."""
    packed, left, size = io.BytesIO(), MAX_COPY_FILES, 0
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        parents = [name.rsplit("/", count)[0] for count in range(name.count("/"), 0, -1)]
        for parent in parents:
            tar.addfile(_entry(parent, 0o755, tarfile.DIRTYPE))
        for place, folders, files in os.walk(folder):
            folders.sort()
            inner = os.path.relpath(place, folder)
            here = name if inner == "." else f"{name}/{inner}"
            tar.addfile(_entry(here, 0o755, tarfile.DIRTYPE))
            for each in sorted(files):
                path = Path(place, each)
                status = path.lstat()
                size += status.st_size
                left -= 1
                if not stat.S_ISREG(status.st_mode) or left < 0 or size > MAX_COPY_BYTES:
                    continue
                data = path.read_bytes()
                tar.addfile(_entry(f"{here}/{each}", status.st_mode & 0o755, size=len(data)), io.BytesIO(data))
    return packed.getvalue()


def _entry(name: str, mode: int, kind: bytes = tarfile.REGTYPE, size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.type, info.size = mode, kind, size
    return info
