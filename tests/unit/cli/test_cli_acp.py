"""What an editor gets and sends, by values."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError
from acp.helpers import (
    audio_block,
    embedded_blob_resource,
    embedded_text_resource,
    resource_block,
    resource_link_block,
)
from acp.schema import HttpMcpServer, McpServerStdio

from app.cli.acp.agent import servers_of
from app.cli.acp.content import content_of
from app.cli.acp.project import git_apply, scan
from app.cli.acp.turn import response
from app.cli.acp.updates import Updates, diffs, locations
from app.cli.approvals import Call
from app.cli.client import ServerEvent
from app.cli.packing import project_folder
from app.cli.screen import UsageError
from app.runtime.values.sessions import SessionCreate

RUN = {"input_tokens": 3, "cache_read_tokens": 4, "cache_write_tokens": 5, "output_tokens": 6, "reasoning_tokens": 1}


def test_text_that_comes_again_after_a_lost_connection_is_shown_once(tmp_path: Path) -> None:
    updates = Updates(tmp_path)
    shown = ""
    for kind, offset, text in (
        ("text.delta", 0, "Hel"),
        ("text.delta", 0, "Hello"),
        ("text.delta", 5, ", w"),
        ("text.completed", None, "Hello, world"),
        ("text.completed", None, "Hello, world"),
    ):
        data: dict[str, Any] = {"message_id": "m", "part_id": "p", "text": text}
        if offset is not None:
            data["offset"] = offset
        for update in updates.take(ServerEvent(None, kind, data)):
            shown += update.content.text  # type: ignore[union-attr]
    assert shown == "Hello, world"


def test_text_after_the_end_of_its_part_or_attempt_is_not_shown(tmp_path: Path) -> None:
    """In a cluster, it may be on its way from another node."""
    updates = Updates(tmp_path)
    part = {"message_id": "m", "part_id": "p"}
    updates.take(ServerEvent(None, "text.delta", {**part, "offset": 0, "text": "half"}))
    updates.take(ServerEvent(1, "text.completed", {**part, "text": "half"}))
    assert updates.take(ServerEvent(None, "text.delta", {**part, "offset": 0, "text": "half of it"})) == []
    failed = {"message_id": "n", "attempt": 1, "delay_ms": 1, "code": "c", "detail": "Failed."}
    (said,) = updates.take(ServerEvent(2, "step.retrying", failed))
    assert said.content.text == "↻ attempt 1 failed (c): Failed; retrying now\n"  # type: ignore[union-attr]
    other = {"message_id": "n", "part_id": "q", "offset": 0, "text": "late"}
    assert updates.take(ServerEvent(None, "text.delta", other)) == []


@pytest.mark.parametrize(
    ("given", "inside"),
    [
        ("src/a.py", "src/a.py"),
        ("/workspace/src/../a.py", "a.py"),
        ("/etc/passwd", None),
        ("../a.py", None),
        ("a\0b", None),
        ("", None),
    ],
)
def test_a_call_is_about_a_file_of_the_folder(tmp_path: Path, given: str, inside: str | None) -> None:
    call = Call("write_file", {"path": given, "content": "new"})
    expected = [] if inside is None else [str(tmp_path / inside)]
    assert [place.path for place in locations(call, tmp_path)] == expected
    assert [change.path for change in diffs(call, tmp_path)] == expected


def test_what_a_user_adds_to_a_prompt_is_named_by_its_path_in_the_workspace() -> None:
    folder = Path("/home/me/my project")
    blocks: list[Any] = [
        resource_link_block("a.py", "file:///home/me/my%20project/src/a.py#L3"),
        resource_link_block("elsewhere", "file:///etc/passwd"),
        resource_block(embedded_text_resource("file:///home/me/my%20project/b.py", "b = 1")),
        resource_block(embedded_blob_resource("https://example.com/x.bin", "AAAA")),
    ]
    assert [part["text"] for part in content_of(blocks, folder)] == [
        "[a.py](src/a.py#L3)",
        "[elsewhere](file:///etc/passwd)",
        "b.py:\n\nb = 1",
        "[https://example.com/x.bin: a binary file]",
    ]
    with pytest.raises(UsageError, match="audio"):
        content_of([audio_block("AAAA", "audio/wav")], folder)


@pytest.mark.parametrize(
    ("outcome", "code", "reason"),
    [
        ("completed", None, "end_turn"),
        ("cancelled", None, "cancelled"),
        ("limit_reached", "max_steps", "max_turn_requests"),
        ("limit_reached", "max_tokens", "max_tokens"),
        ("failed", "refusal", "refusal"),
    ],
)
def test_a_run_ends_with_a_reason_of_the_protocol(outcome: str, code: str | None, reason: str) -> None:
    end = {"outcome": outcome, "error": None if code is None else {"code": code, "detail": "x"}, "usage": RUN}
    answer = response(end)
    assert answer.stop_reason == reason
    assert answer.usage is not None
    assert answer.usage.total_tokens == 18


def test_a_failed_run_is_an_error_with_its_code() -> None:
    with pytest.raises(RequestError, match="The key was refused") as failed:
        response({"outcome": "failed", "error": {"code": "provider_auth", "detail": "The key was refused."}})
    assert failed.value.data == {"code": "provider_auth"}


def test_a_home_directory_is_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for given, code in ((str(tmp_path), "folder_too_large"), ("project", "no_folder"), ("/none", "no_folder")):
        with pytest.raises(UsageError) as refused:
            project_folder(given)
        assert refused.value.code == code


def test_a_scan_has_the_files_that_a_session_gets(tmp_path: Path) -> None:
    for name in ("a.py", "b.log", "src/c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / ".gitignore").write_text("*.log\n")
    first = scan(tmp_path)
    assert sorted(first) == [".gitignore", "a.py", "src/c.py"]
    (tmp_path / "a.py").write_text("longer than it was")
    second = scan(tmp_path)
    assert [name for name in first if first[name] != second[name]] == ["a.py"]


PATCH = """diff --git a/{0} b/{0}
new file mode 100644
--- /dev/null
+++ b/{0}
@@ -0,0 +1 @@
+evil
"""


def test_a_hostile_patch_changes_nothing(tmp_path: Path) -> None:
    """The folder is below the top of a repository, whose paths git would otherwise take for those of the patch."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    patch = tmp_path / "patch"

    def apply(*names: str) -> str | None:
        patch.write_text("".join(map(PATCH.format, names)))
        return git_apply(folder, patch)

    for hostile in ("../evil", ".git/hooks/pre-commit", "link/evil", "/tmp/evil"):
        assert apply("fine", hostile) is not None
        assert sorted(path.name for path in folder.iterdir()) == ["link"]
    assert not (tmp_path / "evil").exists()
    assert apply("fine", "src/fine") is None
    assert (folder / "src" / "fine").read_text() == "evil\n"


def test_servers_of_an_editor_get_names_that_a_session_takes() -> None:
    names = ["docs", "Figma Dev Mode", "a__b", "Figma (dev) mode", "Figma Dev Mode", "図", "", "x" * 40]
    given = [HttpMcpServer(type="http", name=name, url="https://mcp.example.com", headers=[]) for name in names]
    local = McpServerStdio(name="local", command="npx", args=[], env=[])
    servers = servers_of([*given, local])
    assert servers is not None
    assert list(servers) == [
        "docs",
        "Figma-Dev-Mode",
        "a-b",
        "Figma-dev-mode",
        "Figma-Dev-Mode-2",
        "server",
        "server-2",
        "x" * 28,
    ]
    assert SessionCreate.model_validate({"mcp_servers": servers}).mcp_servers is not None
    assert servers_of([local]) is None
