"""Startup warnings about settings and files; they do not stop the start."""

from __future__ import annotations

import shlex
import stat
from pathlib import Path

import structlog

from app.cli.config import unknown_variables

log = structlog.get_logger(__name__)


def warn_of_unknown_variables() -> None:
    """Warns of each variable that looks like a setting but is not one; its value may be a key and is not logged."""
    for name, near in unknown_variables().items():
        log.warning("unknown_setting", variable=name, **({} if near is None else {"did_you_mean": near}))


def warn_of_open_directory(data_dir: Path) -> None:
    """Warns if other users of the machine can read the server's data, with the command that prevents it."""
    if (remedy := how_to_close(data_dir)) is not None:
        mode = stat.S_IMODE(data_dir.stat().st_mode)
        log.warning("data_dir_open_to_others", data_dir=str(data_dir), mode=f"{mode:04o}", remedy=remedy)


def how_to_close(data_dir: Path) -> str | None:
    """The command that denies other users access to a directory; None if they have none."""
    is_open = data_dir.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return f"chmod 700 {shlex.quote(str(data_dir))}" if is_open else None
