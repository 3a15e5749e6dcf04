"""A database with the newest schema and no row: the migrations have tests of their own, all others begin after them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from app.db.migrate import upgrade


@cache
def migrated() -> bytes:
    """The file's content."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "migrated.db"
        upgrade(f"sqlite:///{path}")
        return path.read_bytes()


def make_database(path: Path) -> Path:
    """Makes the file, with the directories above it where they are missing, and gives it back."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(migrated())
    return path
