"""The doctor's findings, each with a real cause."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli import app
from app.db.migrate import upgrade
from tests.requirements import need

NO_DOCKER = "tcp://127.0.0.1:1"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one kind of sandbox is checked unless a test says otherwise."""
    monkeypatch.setenv("PALIMPSEST_SANDBOX", "bubblewrap")


def _run() -> Result:
    return CliRunner().invoke(app, ["doctor", "--json"])


def _checks() -> dict[str, dict[str, Any]]:
    result = _run()
    report = json.loads(result.stdout)
    checks = {check["name"]: check for check in report["checks"]}
    missing = [name for name, check in checks.items() if check["status"] == "missing"]
    assert (result.exit_code, report["healthy"]) == (1 if missing else 0, not missing)
    return checks


def _missing() -> list[str]:
    return [name for name, check in _checks().items() if check["status"] == "missing"]


def test_a_machine_that_is_ready(home: Path) -> None:
    need("bubblewrap")
    checks = _checks()
    assert _missing() == []
    assert checks["data"]["detail"] == f"{home / 'data'}, created at the first start"
    assert checks["database"]["detail"].endswith("palimpsest.db, created at the first start")
    assert checks["bubblewrap"]["detail"].startswith("bubblewrap at ")
    assert checks["providers"]["detail"] == "ready: none; without a key: openai, anthropic"
    assert checks["model"]["detail"] == "scripted/demo: a scripted demo; no real model"
    assert not (home / "data").exists()


def test_the_readable_report_suggests_fixes() -> None:
    need("bubblewrap")
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0
    assert "✓ bubblewrap " in result.stdout
    assert "! model " in result.stdout
    assert "→ Set OPENAI_API_KEY or ANTHROPIC_API_KEY" in result.stdout
    assert result.stdout.endswith("Ready to go.\n")


def test_an_unreadable_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALIMPSEST_MAX_STEPS", "many")
    checks = _checks()
    assert list(checks) == ["python", "settings"]
    assert "PALIMPSEST_MAX_STEPS" in checks["settings"]["detail"]
    assert CliRunner().invoke(app, ["doctor"]).stdout.endswith("Something required is missing.\n")


def test_a_variable_that_looks_like_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "settings" not in _checks()
    monkeypatch.setenv("PALIMPSEST_MAXSTEPS", "secret-7")
    check = _checks()["settings"]
    assert (check["status"], check["detail"]) == ("warning", "PALIMPSEST_MAXSTEPS is not a setting; nothing reads it")
    assert check["fix"] == "Did you mean PALIMPSEST_MAX_STEPS?"
    assert "secret-7" not in _run().output


def test_a_machine_without_git_or_with_an_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _checks()["git"]["status"] == "ok"
    monkeypatch.setenv("PATH", str(tmp_path))
    check = _checks()["git"]
    assert (check["status"], check["fix"]) == ("warning", "Install git.")
    assert "no repository can be cloned" in check["detail"]
    (tmp_path / "git").write_text("#!/bin/sh\necho git version 2.36.9\n")
    (tmp_path / "git").chmod(0o755)
    assert _checks()["git"]["fix"] == "Install git 2.37 or newer."


def test_keys_are_detected_and_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-very-secret-1234"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    monkeypatch.setenv("PALIMPSEST_API_KEYS", f"{secret},b")
    result = _run()
    assert secret not in result.output
    checks = _checks()
    assert checks["providers"] == {
        "name": "providers",
        "status": "ok",
        "detail": "ready: openai; without a key: anthropic",
        "fix": None,
    }
    assert checks["model"]["detail"] == "openai/gpt-5"
    assert checks["access"]["detail"] == "2 API keys are set"


def test_an_unknown_summary_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALIMPSEST_COMPACTION", '{"policy": "reactive", "model": "nobody/x"}')
    monkeypatch.setenv("PALIMPSEST_MODEL", "openai/gpt-5")
    check = _checks()["model"]
    assert check["status"] == "missing"
    assert check["detail"].startswith("PALIMPSEST_COMPACTION cannot be used: There is no model 'nobody/x'")


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("openai/gpt-5", "openai/gpt-5: its provider has no key"),
        ("nobody/x", "PALIMPSEST_MODEL cannot be used: There is no model 'nobody/x'"),
    ],
)
def test_a_default_model_that_cannot_be_called(monkeypatch: pytest.MonkeyPatch, model: str, reason: str) -> None:
    monkeypatch.setenv("PALIMPSEST_MODEL", model)
    check = _checks()["model"]
    assert check["status"] == "missing"
    assert check["detail"].startswith(reason)


def test_prompts_of_the_operator(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "prompts" not in _checks()
    file = home / "sections.md"
    file.write_text("### Orders\n")
    monkeypatch.setenv("PALIMPSEST_SUMMARY_TEMPLATE_FILE", str(file))
    check = _checks()["prompts"]
    assert (check["status"], check["detail"]) == ("ok", f"summary template {file}")
    monkeypatch.setenv("PALIMPSEST_SYSTEM_PROMPT_FILE", str(home / "absent.md"))
    check = _checks()["prompts"]
    assert check["status"] == "missing"
    assert check["detail"].startswith(f"PALIMPSEST_SYSTEM_PROMPT_FILE cannot be used: {home / 'absent.md'} ")


def test_a_public_address_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALIMPSEST_HOST", "0.0.0.0")
    assert _missing() == ["access"]


def test_the_hosts_network_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALIMPSEST_SANDBOX_NETWORK", "on")
    assert _missing() == ["network"]
    monkeypatch.setenv("PALIMPSEST_API_KEYS", "a-key")
    assert _missing() == []


def test_a_port_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setenv("PALIMPSEST_PORT", str(other.getsockname()[1]))
        check = _checks()["address"]
    assert check["status"] == "missing"
    assert "Address already in use" in check["detail"]


def test_no_sandbox_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALIMPSEST_SANDBOX", "docker")
    monkeypatch.setenv("DOCKER_HOST", NO_DOCKER)
    check = _checks()["docker"]
    assert check["status"] == "missing"
    assert NO_DOCKER in check["detail"]


def test_one_sandbox_of_two_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    need("bubblewrap")
    monkeypatch.setenv("PALIMPSEST_SANDBOX", "auto")
    monkeypatch.setenv("DOCKER_HOST", NO_DOCKER)
    checks = _checks()
    assert (checks["docker"]["status"], checks["bubblewrap"]["status"]) == ("warning", "ok")


@pytest.mark.docker
def test_whether_the_image_is_present(monkeypatch: pytest.MonkeyPatch) -> None:
    need("docker")
    image = os.environ.get("PALIMPSEST_TEST_IMAGE", "palimpsest/test-busybox:latest")
    monkeypatch.setenv("PALIMPSEST_SANDBOX", "docker")
    monkeypatch.setenv("PALIMPSEST_SANDBOX_IMAGE", image)
    check = _checks()["docker"]
    assert check["status"] == "ok"
    assert check["detail"].endswith(f"image {image} is present")


NEVER_MADE = "registry.invalid/never-made:0"


@pytest.mark.docker
@pytest.mark.parametrize("image", [NEVER_MADE, "no name of an image"])
def test_an_image_that_cannot_be_pulled(monkeypatch: pytest.MonkeyPatch, image: str) -> None:
    need("docker")
    monkeypatch.setenv("PALIMPSEST_SANDBOX", "docker")
    monkeypatch.setenv("PALIMPSEST_SANDBOX_IMAGE", image)
    check = _checks()["docker"]
    assert check["status"] == "missing"
    assert f"The image {image} is not available locally and cannot be pulled" in check["detail"]
    assert check["fix"] == "Without the image, the server starts without Docker."
    need("bubblewrap")
    monkeypatch.setenv("PALIMPSEST_SANDBOX", "auto")
    checks = _checks()
    assert checks["docker"] == {**check, "status": "warning"}
    assert checks["bubblewrap"]["status"] == "ok"


class Engine(BaseHTTPRequestHandler):
    """An Engine without images whose registry has any image."""

    def do_GET(self) -> None:
        known = {"version": {"Version": "20.10", "ApiVersion": "1.41"}, "distribution": {"Descriptor": {}}}
        found = next((answer for name, answer in known.items() if f"/{name}" in self.path), None)
        body = json.dumps({"message": "no such image"} if found is None else found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""


def test_an_image_that_can_be_pulled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALIMPSEST_SANDBOX", "docker")
    monkeypatch.setenv("PALIMPSEST_SANDBOX_IMAGE", NEVER_MADE)
    with HTTPServer(("127.0.0.1", 0), Engine) as engine:
        thread = threading.Thread(target=engine.serve_forever)
        thread.start()
        try:
            monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{engine.server_port}")
            check = _checks()["docker"]
        finally:
            engine.shutdown()
            thread.join()
    assert check["status"] == "warning"
    assert check["detail"].endswith(f"image {NEVER_MADE} is not present yet")
    assert check["fix"] == f"The first session pulls it; `docker pull {NEVER_MADE}` pulls it now."


def test_commands_without_isolation_cause_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALIMPSEST_SANDBOX", "local-unsafe")
    assert _checks()["sandbox"]["status"] == "warning"


def test_a_data_directory_that_others_can_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = home / "my data"
    monkeypatch.setenv("PALIMPSEST_DATA_DIR", str(data))
    data.mkdir(mode=0o700)
    assert _checks()["data"]["status"] == "ok"
    data.chmod(0o711)
    check = _checks()["data"]
    assert (check["status"], check["fix"]) == ("warning", f"`chmod 700 '{data}'` prevents that.")


def test_a_data_directory_that_is_a_file(home: Path) -> None:
    (home / "data").write_text("")
    assert "data" in _missing()


@pytest.mark.parametrize(
    ("variable", "value", "check"),
    [
        ("PALIMPSEST_DATA_DIR", "/proc/x", "data"),
        ("PALIMPSEST_DATA_DIR", "/proc/x/y", "data"),
        ("PALIMPSEST_DATABASE_URL", "sqlite:////proc/x.db", "database"),
        ("PALIMPSEST_DATABASE_URL", "sqlite:////nowhere/at/all/x.db", "database"),
    ],
)
def test_an_unwritable_place(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, check: str) -> None:
    monkeypatch.setenv(variable, value)
    assert check in _missing()
    assert value.removeprefix("sqlite:///") in _checks()[check]["detail"]


def test_a_dangling_link_cannot_hold_data(home: Path) -> None:
    (home / "data").symlink_to(home / "absent")
    assert "data" in _missing()


def test_checks_leave_nothing_behind(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALIMPSEST_DATA_DIR", str(home / "a" / "b"))
    _checks()
    assert list(home.iterdir()) == []
    (home / "a" / "b").mkdir(parents=True)
    _checks()
    assert list((home / "a" / "b").iterdir()) == []


def test_the_states_of_a_database(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "data" / "palimpsest.db"
    path.parent.mkdir()
    path.write_bytes(b"")
    assert _checks()["database"]["status"] == "warning"
    upgrade(f"sqlite:///{path}")
    newest = _checks()["database"]
    assert newest["status"] == "ok"
    assert ", schema 0" in newest["detail"]
    path.write_text("no database at all " * 100)
    assert _checks()["database"]["status"] == "missing"
    monkeypatch.setenv("PALIMPSEST_DATABASE_URL", "mysql://localhost/x")
    assert _checks()["database"]["status"] == "missing"


def test_the_states_of_a_postgres_database(empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALIMPSEST_DATABASE_URL", empty_postgres_url)
    empty = _checks()["database"]
    assert (empty["status"], empty["fix"]) == ("warning", "`palimpsest db upgrade`, or the next start, upgrades it.")
    upgrade(empty_postgres_url)
    newest = _checks()["database"]
    assert newest["status"] == "ok"
    assert re.fullmatch(r"t\w+ at /.+, Postgres \d+\.\d+, \d+ MiB, schema 0\d+", newest["detail"])
    monkeypatch.setenv("PALIMPSEST_DATABASE_URL", empty_postgres_url.replace("?", "-absent?"))
    absent = _checks()["database"]
    assert absent["status"] == "missing"
    assert "does not exist" in absent["detail"]
    monkeypatch.setenv("PALIMPSEST_DATABASE_URL", "postgresql://someone:secret@127.0.0.1:1/there")
    unreachable = _checks()["database"]
    assert unreachable["status"] == "missing"
    assert "secret" not in unreachable["detail"]


def test_networks_that_webhooks_may_be_sent_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALIMPSEST_WEBHOOK_NETWORKS", "10.1.0.0/16")
    found = _checks()["webhooks"]
    assert (found["status"], "10.1.0.0/16" in found["detail"]) == ("ok", True)
    monkeypatch.setenv("PALIMPSEST_WEBHOOK_NETWORKS", "10.1.0.0/16, 169.254.0.0/16")
    found = _checks()["webhooks"]
    assert (found["status"], "credentials" in found["detail"]) == ("warning", True)
