"""Tool calls on the screen: the call and its result, each on a line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from app.cli import amounts
from app.cli.screen import one_line

COMMAND = "execute_command"

_VERBS = {
    "read_file": ("read", "path"),
    "write_file": ("wrote", "path"),
    "edit_file": ("edited", "path"),
    "list_directory": ("listed", "path"),
    "search_files": ("searched for", "pattern"),
}
_SILENT = {"update_plan"}
"""Tools whose effect has its own event."""


MAX_SHOWN = 10_000
"""Max characters of a call shown for approval; a longer one is visibly cut."""


@dataclass
class Call:
    """An open call. `text` is its output on the screen; `whole` is False once live output had a gap."""

    name: str
    arguments: dict[str, Any] | str
    text: str = ""
    end: int = 0
    whole: bool = True

    def take(self, offset: int, text: str) -> str:
        """The new text in a chunk of live output."""
        if offset > self.end:
            gap, self.end, self.whole = offset - self.end, offset + len(text), False
            return f"\n… {gap:,} characters not shown …\n{text}"
        new = text[self.end - offset :]
        self.end += len(new)
        self.text += new
        return new

    def argument(self, name: str) -> str:
        value = self.arguments.get(name, "") if isinstance(self.arguments, dict) else self.arguments
        return value if isinstance(value, str) else json.dumps(value)

    def headline(self) -> str:
        """`$ ls -l`, or the tool and its main argument."""
        if self.name == COMMAND:
            return "$ " + self.argument("command").strip().replace("\n", "\n  ")
        verb, subject = _VERBS.get(self.name, (self.name, ""))
        about = self.argument(subject) if subject else json.dumps(self.arguments, ensure_ascii=False)
        return one_line(f"{verb} {about}")


def whole(call: Call) -> str:
    """The whole call, as a person needs it to decide."""
    if call.name == COMMAND and isinstance(call.arguments, dict):
        text = call.headline()
    else:
        arguments = call.arguments
        shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, indent=2)
        text = f"{call.name} {shown}"
    left = len(text) - MAX_SHOWN
    return (
        text
        if left <= 0
        else f"{text[:MAX_SHOWN]}\n… {left:,} more characters; `palimpsest approvals ID --json` shows all"
    )


def command_rest(call: Call, result: dict[str, Any]) -> str:
    """The rest of a command's output that was not sent live; empty if live output had gaps."""
    output = str(result["output"])
    for note in ("[no output]", f"[exit code {result.get('exit_code')}]"):
        output = output.removesuffix(note)
    if not call.whole or not output.startswith(call.text):
        return ""
    return output[len(call.text) :]


def outcome_line(call: Call, result: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """How a call ended, with the line's style; empty if it needs no line."""
    status, time = result["status"], amounts.seconds(result["duration_ms"] / 1000)
    good = status == "completed"
    if call.name == COMMAND:
        code = result.get("exit_code")
        ending = f"exit {code}" if good and code is not None else status
        if code and result.get("truncated"):
            ending += f" · {result['bytes']:,} bytes of output"
        return f"{ending} · {time}", {"dim": True} if good and code == 0 else {"fg": "red" if good else "yellow"}
    if good:
        return ("", {}) if call.name in _SILENT else (f"· {call.headline()}{_lines(call)}", {"dim": True})
    return f"· {call.headline()}: {status}: {one_line(str(result['output']), 300)}", {"fg": "yellow"}


def _lines(call: Call) -> str:
    if call.name != "write_file":
        return ""
    count = len(call.argument("content").splitlines())
    return f" ({count} line{'s' * (count != 1)})"
