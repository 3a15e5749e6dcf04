"""Shells and search engines as different images have them, made from the tools of this machine."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

SHELLS: dict[str, Sequence[str]] = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "sh"]}

_COMMON = ("head", "tr", "wc", "sh")
_TOOLS = {
    "rg": (*_COMMON, "find", "rg"),
    "rg alone": (*_COMMON, "rg"),
    "perl": (*_COMMON, "find", "grep"),
    "posix": (*_COMMON, "find"),
    "busybox": (),
    "none": _COMMON,
}

_GREP_WITHOUT_PERL = """#!/bin/sh
for argument; do
  case $argument in -qP) echo 'grep: support for the -P option is not compiled' >&2; exit 2 ;; esac
done
exec {grep} "$@"
"""


def find_tool(name: str) -> str:
    """Skips the test if this machine lacks the tool."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed here")
    return found


def shell_command(name: str) -> list[str]:
    program, *arguments = SHELLS[name]
    return [find_tool(program), *arguments]


def tools_directory(directory: Path, engine: str) -> Path:
    """A directory for `PATH` with what an image with that engine has."""
    directory.mkdir()
    for tool in _TOOLS[engine]:
        (directory / tool).symlink_to(find_tool(tool))
    if engine == "posix":
        (directory / "grep").write_text(_GREP_WITHOUT_PERL.format(grep=find_tool("grep")))
        (directory / "grep").chmod(0o755)
    if engine == "busybox":
        for applet in (*_COMMON, "find", "grep"):
            (directory / applet).symlink_to(find_tool("busybox"))
    return directory
