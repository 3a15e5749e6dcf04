"""Help, versions and errors of all commands."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app import __version__
from app.cli import app
from app.cli.following import RunEnd
from app.cli.run import TaskOptions
from app.cli.screen import CliError, InvalidSettingsError, UsageError
from app.cli.serve import command, greeting, reachable
from app.cli.startup import announce, announced_url, claimed, load_settings
from app.cli.target import answers, first_key, given, own_url
from app.errors import StorageError
from app.sessions import AllowedHosts

ROOT = Path(__file__).resolve().parents[3]
SESSIONS = ("ls", "show", "follow", "send", "cancel", "resume", "files", "compactions", "revert", "rm")


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("serve",),
        ("run",),
        ("acp",),
        ("mcp",),
        ("compact",),
        ("fork",),
        ("prune",),
        ("eval",),
        ("doctor",),
        ("db",),
        ("db", "upgrade"),
        ("db", "copy"),
    ]
    + [("approvals",), ("approve",), ("deny",), ("sessions",)]
    + [("sessions", name) for name in SESSIONS],
)
def test_every_command_explains_itself(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Usage: " in result.stdout
    assert len(result.stdout.splitlines()) < 60


@pytest.mark.parametrize("command", [(), ("sessions",), ("db",)])
def test_no_arguments_show_the_help(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert "Usage: " in result.output


def test_the_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"palimpsest {__version__}\n"


def test_help_does_not_wait_for_a_servers_imports() -> None:
    code = (
        "import sys; from app.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'pydantic', 'sqlalchemy', 'fastapi', 'uvicorn', 'aiodocker', 'httpx'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Usage: palimpsest" in done.stdout


def test_the_database_is_upgraded_once(home: Path) -> None:
    first = CliRunner().invoke(app, ["db", "upgrade"])
    assert first.exit_code == 0
    assert first.stdout.startswith("Upgraded the database from empty to schema 0")
    second = CliRunner().invoke(app, ["db", "upgrade"])
    assert second.stdout.startswith("The database is already at the newest schema, 0")
    (home / "data" / "palimpsest.db").write_text("broken " * 1000)
    third = CliRunner().invoke(app, ["db", "upgrade"])
    assert third.exit_code == 1
    assert third.stderr.endswith("(storage_unavailable)\n")


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("PALIMPSEST_PORT", "70000", "PALIMPSEST_PORT: "),
        ("PALIMPSEST_SANDBOX", "cloud-secret", "PALIMPSEST_SANDBOX: "),
        ("PALIMPSEST_MODELS", '{"a/b": {"context_window": "x-secret"}}', "PALIMPSEST_MODELS (a/b.context_window): "),
        ("PALIMPSEST_PROVIDERS", "{secret", "PALIMPSEST_PROVIDERS is not valid JSON."),
    ],
)
def test_an_invalid_setting_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, named: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidSettingsError) as caught:
        load_settings()
    assert caught.value.detail.startswith(named)
    assert "secret" not in caught.value.detail
    assert CliRunner().invoke(app, ["sessions", "ls"]).exit_code == 2


@pytest.mark.parametrize("text", ["10.1.0.0/16, fd00::/8", '["10.1.0.0/16", "fd00::/8"]'])
@pytest.mark.parametrize("name", ["webhook", "git", "mcp"])
def test_lists_are_written_with_commas_or_as_json(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    monkeypatch.setenv(f"PALIMPSEST_{name.upper()}_NETWORKS", text)
    assert list(map(str, getattr(load_settings(), f"{name}_networks"))) == ["10.1.0.0/16", "fd00::/8"]


@pytest.mark.parametrize("text", ["a.example, *.b.example", '["a.example", "*.b.example"]'])
def test_the_hosts_of_the_network_are_such_a_list(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PALIMPSEST_SANDBOX_NETWORK", text)
    assert load_settings().sandbox_network == AllowedHosts(allowed_hosts=("a.example", "*.b.example"))


@pytest.mark.parametrize(
    ("variable", "value"), [("PALIMPSEST_WEBHOOK_NETWORKS", "10.0.0.0/33"), ("PALIMPSEST_SANDBOX_NETWORK", "http://x")]
)
def test_the_error_of_a_list_shows_the_value_and_the_form(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidSettingsError, match=rf"'{re.escape(value)}' .* such as .* with commas between them"):
        load_settings()


def test_the_default_limit_of_steps_can_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().max_steps == 50
    monkeypatch.setenv("PALIMPSEST_MAX_STEPS", "none")
    assert load_settings().max_steps is None


def test_a_server_is_set_by_option_variable_or_env_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert given(None, None) is None
    (home / ".env").write_text("PALIMPSEST_URL=http://file:1\nPALIMPSEST_API_KEYS= k1 ,k2\n")
    target = given(None, None)
    assert target is not None
    assert (target.url, target.key) == ("http://file:1", "k1")
    monkeypatch.setenv("PALIMPSEST_URL", "http://variable:1")
    monkeypatch.setenv("PALIMPSEST_API_KEY", "mine")
    target = given(None, None)
    assert target is not None
    assert (target.url, target.key) == ("http://variable:1", "mine")
    target = given("http://option:1", "given")
    assert target is not None
    assert (target.url, target.key) == ("http://option:1", "given")


def test_without_a_key_the_key_is_none() -> None:
    assert first_key({"PALIMPSEST_API_KEYS": ""}) is None


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("127.0.0.1", 8000, "http://127.0.0.1:8000"),
        ("0.0.0.0", 80, "http://127.0.0.1:80"),
        ("::", 8000, "http://[::1]:8000"),
        ("127.0.0.1", 0, None),
    ],
)
def test_the_local_url_of_a_server(host: str, port: int, url: str | None) -> None:
    assert own_url(load_settings(host=host, port=port)) == url


async def test_an_invalid_url_does_not_answer() -> None:
    assert not await answers("http://127.0.0.1:1")
    assert not await answers("http://[")


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "http://", "http://x:port", ""])
def test_an_invalid_server_url_is_refused(url: str) -> None:
    result = CliRunner().invoke(app, ["sessions", "ls", "--server", url or " "])
    assert result.exit_code == 2
    assert result.stderr.endswith("(bad_url)\n")


def test_a_task_without_text_is_refused() -> None:
    result = CliRunner().invoke(app, ["run", "-"], input=" \n")
    assert result.exit_code == 2
    assert result.stderr.endswith("(no_text)\n")


def test_images_of_this_machine_are_parts_of_the_task(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n...")
    text, image = TaskOptions(images=(tmp_path / "a.png",)).body("do it")["task"]
    assert text == {"type": "text", "text": "do it"}
    assert (image["media_type"], base64.b64decode(image["data"])) == ("image/png", b"\x89PNG\r\n\x1a\n...")


def test_the_request_has_only_the_given_options() -> None:
    body = TaskOptions(model="a/b", max_steps=3).body("do it")
    assert len(body.pop("id")) == 36
    assert body == {"task": "do it", "model": "a/b", "limits": {"max_steps": 3}}
    assert TaskOptions(max_cost=2.5).body("do it")["limits"] == {"max_cost_usd": 2.5}
    assert "limits" not in TaskOptions().body("do it")


@pytest.mark.parametrize(
    ("given", "sent"),
    [("handoff", "handoff"), ('{"policy": "handoff", "auto": false}', {"policy": "handoff", "auto": False})],
)
def test_compaction_is_a_name_or_json(given: str, sent: object) -> None:
    body = TaskOptions(effort="low", compaction=given).body("do it")
    assert (body["reasoning_effort"], body["compaction"]) == ("low", sent)


def test_invalid_json_for_compaction_is_refused() -> None:
    with pytest.raises(UsageError, match="--compaction is not valid JSON"):
        TaskOptions(compaction="{").body("do it")


@pytest.mark.parametrize(
    ("outcome", "status", "unanswered"),
    [
        ("completed", 0, 4),
        ("failed", 1, 4),
        ("interrupted", 1, 4),
        (None, 1, 4),
        ("limit_reached", 3, 3),
        ("cancelled", 130, 130),
    ],
)
def test_exit_statuses(outcome: str | None, status: int, unanswered: int) -> None:
    assert RunEnd(outcome).status == status
    assert RunEnd(outcome, unanswered=True).status == unanswered


def test_one_process_claims_a_data_directory_and_announces_its_url(home: Path) -> None:
    assert announced_url(home) is None
    with claimed(home) as file:
        with pytest.raises(CliError, match="start `palimpsest serve`"), claimed(home):
            pass
        announce(file, "http://127.0.0.1:7")
        assert announced_url(home) == "http://127.0.0.1:7"
        with pytest.raises(CliError, match=r"The server at http://127\.0\.0\.1:7 uses "), claimed(home):
            pass
        assert announced_url(home) == "http://127.0.0.1:7"
    assert announced_url(home) is None
    with claimed(home):
        pass


def test_an_unwritable_data_directory_is_a_storage_error(home: Path) -> None:
    (home / "server.url").mkdir()
    with pytest.raises(StorageError, match="cannot be written: Is a directory"), claimed(home):
        pass


def test_the_greeting_says_what_is_missing() -> None:
    text = greeting(load_settings(), "scripted/demo", None, "http://127.0.0.1:8000")
    assert "sandbox  none: commands cannot run" in text
    assert "access   this machine only, without a key" in text
    assert "Bearer" not in text
    keys = load_settings(api_keys=("k-one", "k-two"), model="openai/gpt-5")
    text = greeting(keys, "openai/gpt-5", "found", "u")
    assert "access   with one of 2 API keys" in text
    remedy = "set OPENAI_API_KEY, or choose another model in PALIMPSEST_MODEL"
    assert f"  model    openai/gpt-5: its provider has no key; {remedy}\n" in text
    assert "export PALIMPSEST_API_KEY=" in text
    assert '-H "Authorization: Bearer $PALIMPSEST_API_KEY"' in text
    assert "k-one" not in text


def test_the_greeting_shows_the_command_that_a_shell_finds(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = home / ".venv" / "bin"
    programs.mkdir(parents=True)
    monkeypatch.setattr("sys.executable", str(programs / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    assert command() == f"{programs}/python -m app"
    (programs / "palimpsest").touch(mode=0o700)
    assert command() == ".venv/bin/palimpsest"
    monkeypatch.chdir(programs.parent.parent.parent)
    assert command().endswith(".venv/bin/palimpsest")
    (home / "elsewhere").mkdir()
    monkeypatch.chdir(home / "elsewhere")
    assert command() == f"{programs}/palimpsest"
    monkeypatch.setenv("PATH", str(programs))
    assert command() == "palimpsest"
    assert 'or `palimpsest run "…"`' in greeting(load_settings(), "scripted/demo", "found", "u")


def test_a_wildcard_address_is_shown_as_loopback() -> None:
    assert reachable("http://0.0.0.0:8000") == "http://127.0.0.1:8000"
    assert reachable("http://[::]:8000") == "http://[::1]:8000"
    assert reachable("http://192.0.2.1:8000") == "http://192.0.2.1:8000"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--patch", "."), "The patch cannot be written to .: it is a directory. (not_written)"),
        (("--patch", "none/x"), "The patch cannot be written to none/x: its directory does not exist. (not_written)"),
        (("--image", "none"), "--image: none cannot be read: No such file or directory. (bad_image)"),
        (("--image", __file__), "is not a PNG, JPEG, GIF or WebP image. (bad_image)"),
        (("--output-schema", "none"), "none cannot be read: No such file or directory. (bad_output_schema)"),
        (("--quiet", "--json"), "--quiet and --json exclude each other. (bad_options)"),
    ],
)
def test_files_that_cannot_be_used_are_reported_before_the_run(options: tuple[str, str], reason: str) -> None:
    # No server is at this address.
    result = CliRunner().invoke(app, ["run", "--server", "http://127.0.0.1:9", *options, "A task."])
    assert result.exit_code in (1, 2)
    assert reason in result.stderr
