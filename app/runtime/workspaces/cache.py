"""The newest snapshots of this machine's workspaces as files in the data directory: with what tells unchanged files
from others, which is only valid here. All of it blocks."""

from __future__ import annotations

import os
import secrets
import zlib
from contextlib import suppress
from pathlib import Path

import orjson

from app.errors import PalimpsestError
from app.messages import new_id
from app.runtime.workspaces.taking import Snapshot
from app.runtime.workspaces.tree import Tree, blob_of, decode, encode, raw
from app.sandbox import paths

MACHINE_FILE = "machine-id"


def machine_id(data_dir: Path) -> str:
    """This machine's id: of its data directory, so that a directory that moves takes its workspaces along."""
    path = data_dir / MACHINE_FILE
    with suppress(FileExistsError):
        temporary = data_dir / f".{MACHINE_FILE}-{secrets.token_hex(8)}"
        temporary.write_text(new_id())
        try:
            os.link(temporary, path)  # whole or not at all, whoever is first
        finally:
            temporary.unlink()
    return path.read_text().strip()


class TreeCache:
    """One file for each session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, session_id: str) -> Path:
        return self.folder / paths.check_session_id(session_id)

    def save(self, session_id: str, snapshot: Snapshot) -> None:
        """Best effort: without it the next snapshot reads all files again."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        head = {"id": snapshot.id, "packs": snapshot.packs, "lists": raw(snapshot.tree.lists)}
        data = orjson.dumps(head) + b"\n" + encode(snapshot.tree.entries, seen=True)
        temporary = self.folder / f".{secrets.token_hex(8)}"
        with suppress(OSError):
            temporary.write_bytes(zlib.compress(data, 1))
            temporary.replace(self._path(session_id))

    def load(self, session_id: str, snapshot_id: str | None) -> Snapshot | None:
        """The snapshot, if it is the one that is cached."""
        try:
            head, _, entries = zlib.decompress(self._path(session_id).read_bytes()).partition(b"\n")
            found = orjson.loads(head)
            if found["id"] != snapshot_id:
                return None
            tree = Tree(tuple(decode(entries)), tuple(map(blob_of, found["lists"])))
            return Snapshot(snapshot_id, tree, found["packs"])
        except (OSError, zlib.error, ValueError, KeyError, TypeError, PalimpsestError):
            return None

    def remove(self, session_id: str) -> None:
        self._path(session_id).unlink(missing_ok=True)

    def remove_others(self, known: set[str]) -> None:
        """Removes the files of sessions that are not `known`, and temporary ones."""
        with suppress(FileNotFoundError):
            for path in self.folder.iterdir():
                if path.name not in known:
                    path.unlink(missing_ok=True)
