"""What calls did: our own, and those of other agents in the shapes that their tools have."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.actions import Command, Touched, actions_of, workspace_path
from app.messages import ToolStatus
from tests.unit.context.builders import call, result


def did(name: str, arguments: Any, output: str = "", **outcome: Any) -> tuple[Command | Touched, ...]:
    written = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return tuple(actions_of(call("c", name, written), result("c", name=name, output=output, **outcome)))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a", "a"),
        ("./src//a", "src/a"),
        ("/workspace/src/a", "src/a"),
        ("/workspace", "."),
        ("/workspace2/a", "/workspace2/a"),
        ("/etc/hosts", "/etc/hosts"),
        ("link/../a", "link/../a"),
        ("", "."),
    ],
)
def test_one_name_for_a_file(path: str, name: str) -> None:
    assert workspace_path(path) == name


@pytest.mark.parametrize(
    ("name", "arguments", "command"),
    [
        ("execute_command", {"command": "make"}, "make"),
        ("Bash", {"command": "make", "description": "Build"}, "make"),
        ("bash", {"cmd": "make"}, "make"),
        ("shell", {"command": ["bash", "-lc", "make && make test"]}, "make && make test"),
        ("local_shell", {"command": ["ls", "a b"]}, "ls 'a b'"),
        ("run_shell_command", {"command": "make"}, "make"),
        ("run_terminal_cmd", {"command": "make", "is_background": False}, "make"),
        ("execute_bash", {"command": "make"}, "make"),
    ],
)
def test_commands_of_any_agent(name: str, arguments: Any, command: str) -> None:
    assert did(name, arguments, exit_code=0) == (Command(command, 0, failed=False),)


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("Exit code 2\nmake: no rule", 2),
        ("make: no rule\n[exit code: 2]", 2),
        ("<returncode>127</returncode>\n<output>not found</output>", 127),
        ('{"output":"x","metadata":{"exit_code": 1,"duration_seconds":0.1}}', 1),
        ("Process exited with code 0", 0),
        ("all good", None),
    ],
)
def test_exit_codes_as_other_agents_state_them(output: str, code: int | None) -> None:
    assert did("bash", {"command": "make"}, output, exit_code=None) == (Command("make", code, failed=bool(code)),)


@pytest.mark.parametrize(
    ("name", "arguments", "touched"),
    [
        ("Read", {"file_path": "/workspace/a.py"}, Touched("a.py", "read")),
        ("view", {"path": "a.py"}, Touched("a.py", "read")),
        ("Write", {"file_path": "a.py", "content": "x"}, Touched("a.py", "written")),
        ("write_to_file", {"path": "a.py", "content": "x"}, Touched("a.py", "written")),
        ("Edit", {"file_path": "a.py", "old_string": "a", "new_string": "b"}, Touched("a.py", "edited", "a → b")),
        (
            "MultiEdit",
            {"file_path": "a.py", "edits": [{"old_string": "a", "new_string": "b"}]},
            Touched("a.py", "edited", "a → b"),
        ),
        ("edit", {"filePath": "a.py", "oldString": "a", "newString": ""}, Touched("a.py", "edited", "a → (deleted)")),
        (
            "str_replace_editor",
            {"command": "str_replace", "path": "a.py", "old_str": "a", "new_str": "b"},
            Touched("a.py", "edited", "a → b"),
        ),
        ("str_replace_based_edit_tool", {"command": "view", "path": "a.py"}, Touched("a.py", "read")),
        ("str_replace_editor", {"command": "create", "path": "a.py", "file_text": "x"}, Touched("a.py", "written")),
    ],
)
def test_files_of_any_agent(name: str, arguments: Any, touched: Touched) -> None:
    assert did(name, arguments) == (touched,)


def test_a_patch_changes_several_files() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x = 1\n+x = 2\n*** Add File: b.py\n+print()\n*** End Patch"
    )
    changed = (Touched("src/a.py", "edited", "→ x = 2"), Touched("b.py", "written", "→ print()"))
    assert did("apply_patch", {"input": patch}) == changed
    assert did("apply_patch", {"patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2"}) == (Touched("x", "edited", "→ 2"),)


def test_a_long_line_is_shown_around_its_first_difference() -> None:
    start = "x" * 200
    (touched,) = did("edit_file", {"path": "a", "old_text": f"{start}one", "new_text": f"{start}two"})
    assert isinstance(touched, Touched)
    assert touched.change == f"…{'x' * 20}one → …{'x' * 20}two"


@pytest.mark.parametrize("name", ["glob", "task", "web_search", "update_plan", "list_directory"])
def test_other_calls_are_no_action(name: str) -> None:
    assert did(name, {"command": "x", "path": "y"}) == ()


@pytest.mark.parametrize("status", [s for s in ToolStatus if s is not ToolStatus.COMPLETED])
def test_a_file_is_touched_only_by_a_completed_call(status: ToolStatus) -> None:
    assert did("write_file", {"path": "a"}, status=status) == ()


@given(
    st.sampled_from(["bash", "Edit", "apply_patch", "str_replace_editor"]),
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["command", "path", "file_path", "edits", "old_string", "new_string", "input"]),
                inner,
                max_size=5,
            )
        ),
    ),
)
def test_any_arguments_are_read(name: str, arguments: Any) -> None:
    for action in did(name, arguments, exit_code=None):
        assert isinstance(action, Command | Touched)
