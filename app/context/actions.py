"""What a tool call did: the command it ran, or the files it read and changed. Calls of other agents, in imported
histories, are read like Palimpsest's own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from app.context.clipping import one_line
from app.messages import ToolCallPart, ToolResultPart, ToolStatus

WORKSPACE = "/workspace"

CHANGE_CHARS = 90
"""Characters of a changed line, before and after, that are kept."""

SHARED_CHARS = 20
"""Characters before the first difference that are kept."""

FileUse = Literal["read", "written", "edited"]

_FAILED = frozenset({ToolStatus.ERROR, ToolStatus.CANCELLED, ToolStatus.INTERRUPTED})


@dataclass(frozen=True, slots=True)
class Command:
    """A shell command that ran, or was stopped. `exit_code` is None if it is unknown."""

    text: str
    exit_code: int | None
    failed: bool


@dataclass(frozen=True, slots=True)
class Touched:
    """A file that a completed call read or changed. `path` is relative to the workspace, or absolute outside it;
    `change` is one changed line in short, empty if unknown."""

    path: str
    use: FileUse
    change: str = ""


_COMMANDS = frozenset(
    (
        *("executecommand", "bash", "shell", "localshell", "runcommand", "runshellcommand", "executebash"),
        *("execcommand", "runterminalcmd", "terminal", "runinterminal", "containerexec"),
    )
)
_FILES: Mapping[str, FileUse] = {
    **dict.fromkeys(("readfile", "read", "view", "viewfile", "openfile"), "read"),
    **dict.fromkeys(("writefile", "write", "createfile", "writetofile"), "written"),
    **dict.fromkeys(("editfile", "edit", "multiedit", "strreplace", "replace", "replaceinfile"), "edited"),
    **dict.fromkeys(("searchreplace", "replacestringinfile", "notebookedit"), "edited"),
}
_EDITORS = frozenset(("strreplaceeditor", "strreplacebasededittool", "texteditor"))
"""Tools whose argument `command` says what they do."""
_EDITOR_USES: Mapping[str, FileUse] = {
    "view": "read",
    "create": "written",
    "str_replace": "edited",
    "insert": "edited",
}
_COMMAND_KEYS = ("command", "cmd", "script", "command_line", "CommandLine")
_PATH_KEYS = ("path", "file_path", "filePath", "filename", "file", "target_file", "absolute_path", "notebook_path")
_OLD_KEYS = ("old_text", "old_string", "old_str", "oldString", "oldText", "search")
_NEW_KEYS = ("new_text", "new_string", "new_str", "newString", "newText", "replace", "file_text", "content", "contents")
_PATCH_KEYS = ("input", "patch", "patchText", "diff")
_PATCHED = re.compile(r"^(?:\*\*\* (Update|Add) File: (.+)|\+\+\+ (?:b/)?([^\t\n]+))", re.MULTILINE)
_ADDED = re.compile(r"^\+(?!\+\+)(.*\S.*)$", re.MULTILINE)
_EXIT_CODE = re.compile(
    r"exit(?:ed)?(?: with)?[ _]?(?:code|status)\W{1,4}(-?\d{1,10})\b|<returncode>(-?\d{1,10})<", re.IGNORECASE
)
_EXIT_PLACE = 200
"""Characters of an output's beginning and end in which other agents write the exit code."""


def actions_of(call: ToolCallPart, result: ToolResultPart) -> Sequence[Command | Touched]:
    """What the call did; nothing if it is of another kind or did not complete. A denied command never ran."""
    name, arguments = re.sub(r"[^a-z]", "", call.name.lower()), call.arguments
    if not isinstance(arguments, dict):
        return ()
    if name in _COMMANDS:
        command = _command(arguments)
        return (_ran(command, result),) if command and result.status is not ToolStatus.DENIED else ()
    if result.status is not ToolStatus.COMPLETED:
        return ()
    if name == "applypatch":
        return tuple(_patched(arguments))
    use = _EDITOR_USES.get(str(arguments.get("command"))) if name in _EDITORS else _FILES.get(name)
    path = _first_text(arguments, _PATH_KEYS)
    if use is None or not path:
        return ()
    change = _change(arguments) if use == "edited" else ""
    return (Touched(workspace_path(path), use, change),)


def _ran(command: str, result: ToolResultPart) -> Command:
    code = result.exit_code if result.exit_code is not None else _stated_exit_code(result.output)
    failed = result.status in _FAILED or (result.status is ToolStatus.COMPLETED and bool(code))
    return Command(command, code, failed)


def _stated_exit_code(output: str) -> int | None:
    """The exit code as other agents state it, at the beginning or the end of an output."""
    for place in (output[:_EXIT_PLACE], output[-_EXIT_PLACE:]):
        if match := _EXIT_CODE.search(place):
            return int(match[1] or match[2])
    return None


def _command(arguments: Mapping[str, Any]) -> str:
    for key in _COMMAND_KEYS:
        value = arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return value[2] if len(value) == 3 and value[1] in ("-c", "-lc") else shlex.join(value)
    return ""


def _patched(arguments: Mapping[str, Any]) -> Iterator[Touched]:
    patch = _first_text(arguments, _PATCH_KEYS) or ""
    files = list(_PATCHED.finditer(patch))
    for file, following in zip_longest(files, files[1:]):
        added = _ADDED.search(patch, file.end(), following.start() if following else len(patch))
        path = workspace_path((file[2] or file[3]).strip())
        change = f"→ {one_line(added[1].strip(), CHANGE_CHARS)}" if added else ""
        yield Touched(path, "written" if file[1] == "Add" else "edited", change)


def _change(arguments: Mapping[str, Any]) -> str:
    """The first line that an edit changed, before and after."""
    edits = arguments.get("edits")
    if isinstance(edits, list) and edits and isinstance(edits[-1], dict):
        arguments = edits[-1]
    old, new = _first_text(arguments, _OLD_KEYS), _first_text(arguments, _NEW_KEYS)
    if old is None and new is None:
        return ""
    lines = zip_longest((old or "").splitlines(), (new or "").splitlines(), fillvalue="")
    before, after = next(((a.strip(), b.strip()) for a, b in lines if a.strip() != b.strip()), ("", ""))
    if not before and not after:
        return ""
    before, after = _around_difference(before, after)
    return f"{one_line(before, CHANGE_CHARS)} → {one_line(after, CHANGE_CHARS) or '(deleted)'}".strip()


def _around_difference(before: str, after: str) -> tuple[str, str]:
    """Both lines, without most of a beginning that they share."""
    differing = (place for place, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)
    shared = next(differing, min(len(before), len(after))) - SHARED_CHARS
    return (before, after) if shared <= 0 else (f"…{before[shared:]}", f"…{after[shared:]}")


def workspace_path(path: str) -> str:
    """One name for all spellings of a path (`./a`, `/workspace/a`, `a`). `..` is kept: behind a link it may lead
    elsewhere."""
    steps = [step for step in path.split("/") if step not in ("", ".")]
    if not path.startswith("/"):
        return "/".join(steps) or "."
    absolute = f"/{'/'.join(steps)}"
    return absolute.removeprefix(f"{WORKSPACE}/") if absolute != WORKSPACE else "."


def _first_text(arguments: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((arguments[key] for key in keys if isinstance(arguments.get(key), str)), None)
