"""What a start says of settings and files that are not as they were meant, without being held up by it."""

from __future__ import annotations

import shlex
import stat
from pathlib import Path

import structlog

from app.cli.config import unknown_variables

log = structlog.get_logger(__name__)


def warn_of_unknown_variables() -> None:
    """Names each variable that looks like a setting and is none; never its value, which may be a key."""
    for name, near in unknown_variables().items():
        log.warning("unknown_setting", variable=name, **({} if near is None else {"did_you_mean": near}))


def warn_of_open_directory(data_dir: Path) -> None:
    """Says that others on the machine may read what the server stores, and what to type against it."""
    if (remedy := how_to_close(data_dir)) is not None:
        mode = stat.S_IMODE(data_dir.stat().st_mode)
        log.warning("data_dir_open_to_others", data_dir=str(data_dir), mode=f"{mode:04o}", remedy=remedy)


def how_to_close(data_dir: Path) -> str | None:
    """The command that closes a directory to other users; None for one that is closed."""
    is_open = data_dir.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return f"chmod 700 {shlex.quote(str(data_dir))}" if is_open else None
