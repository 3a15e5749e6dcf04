"""What the doctor makes of a running server's answers."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from app import __version__
from app.cli import app
from app.cli.check import Check
from app.cli.server_checks import model_check, node_checks, part_checks, version_check


def model(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "provider": name.partition("/")[0], "key_present": False, "default": False, **fields}


def test_versions_that_differ_are_reported() -> None:
    assert version_check("u", __version__) == Check("server", "ok", f"u, version {__version__}")
    other = version_check("u", "9.0")
    assert (other.status, "this command is version" in other.detail) == ("warning", True)


def test_each_part_is_a_check() -> None:
    fine, full = part_checks(
        {
            "sandbox": {"ok": True, "status": "ok", "detail": "docker 29"},
            "disk": {"ok": False, "status": "full", "detail": "No space is left."},
        }
    )
    assert fine == Check("server.sandbox", "ok", "docker 29")
    assert (full.name, full.status, full.detail) == ("server.disk", "missing", "full: No space is left.")


def test_models_need_a_key() -> None:
    demo = model("scripted/demo", key_present=True, default=True)
    assert model_check([demo, model("a/x")]).status == "warning"
    found = model_check([demo, model("b/y", key_present=True), model("b/z", key_present=True)])
    assert found == Check("server.models", "ok", "default scripted/demo; with a key: b")


def test_lost_nodes_are_named() -> None:
    assert node_checks([]) == []
    nodes = [{"name": "n1", "status": "ready", "sessions": 2}, {"name": "n2", "status": "lost", "sessions": 0}]
    assert [node_checks(nodes[:1])[0].detail, node_checks(nodes)[0].detail] == [
        "1, running 2 sessions",
        "2, running 2 sessions; lost: n2",
    ]


def test_a_given_server_that_does_not_answer_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALIMPSEST_SANDBOX", "bubblewrap")
    report = CliRunner().invoke(app, ["doctor", "--server", "http://127.0.0.1:9"])
    assert report.exit_code == 1
    assert "✗ server       No server answers at http://127.0.0.1:9" in report.stdout
