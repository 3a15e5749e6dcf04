"""The doctor's findings about a cluster, with real servers and with each of them absent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.db.backends import backend_of
from app.db.migrate import upgrade
from app.db.repositories import server_wide, sessions
from app.runtime.vault import Vault
from scripts.servers.redis import RedisServer
from scripts.servers.temporal import temporal
from tests.requirements import need
from tests.s3 import CREDENTIALS, S3Server

NOBODY = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALIMPSEST_SANDBOX", "local-unsafe")


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch, empty_postgres_url: str) -> None:
    """The settings of a node; its engine is the one of the tests."""
    need("temporal")
    monkeypatch.setenv("PALIMPSEST_DATABASE_URL", empty_postgres_url)
    monkeypatch.setenv("PALIMPSEST_TEMPORAL", temporal().address)


def _check(name: str) -> dict[str, Any] | None:
    """One row of the report, None if the report does not have it; the exit status fits the report."""
    result = CliRunner().invoke(app, ["doctor", "--json"])
    report = json.loads(result.stdout)
    assert result.exit_code == (0 if report["healthy"] else 1)
    assert report["healthy"] == all(check["status"] != "missing" for check in report["checks"])
    return next((check for check in report["checks"] if check["name"] == name), None)


def _found(name: str) -> dict[str, Any]:
    check = _check(name)
    assert check is not None
    return check


def test_a_server_on_its_own_has_no_rows_of_a_cluster() -> None:
    assert [_check(name) for name in ("cluster", "engine", "broker", "store")] == [None] * 4


@pytest.mark.usefixtures("node")
def test_the_key_of_all_nodes(monkeypatch: pytest.MonkeyPatch, empty_postgres_url: str) -> None:
    check = _found("secret key")
    assert check["status"] == "warning"
    assert "PALIMPSEST_SECRET_KEY is not set" in check["detail"]
    monkeypatch.setenv("PALIMPSEST_SECRET_KEY", "k" * 32)
    assert _check("secret key") is None, "the database has no tables yet, which another row reports"
    upgrade(empty_postgres_url)
    assert _found("secret key")["detail"] == "set"
    engine = backend_of(empty_postgres_url).migrating()
    with engine.begin() as connection:
        instance_id = sessions.instance_id(connection)
        own = Vault("k" * 32, None).fingerprint(instance_id)
        assert own is not None
        server_wide.set_secret_key_id(connection, own)
    engine.dispose()
    assert _found("secret key")["status"] == "ok"
    monkeypatch.setenv("PALIMPSEST_SECRET_KEY", "x" * 32)
    check = _found("secret key")
    assert (check["status"], "differs from that" in check["detail"]) == ("warning", True)


@pytest.mark.usefixtures("node")
def test_the_engine_and_its_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    check = _found("engine")
    assert check["status"] == "ok"
    assert check["detail"].startswith("Temporal 1.")
    assert check["detail"].endswith(f" at {temporal().address}, namespace default")
    monkeypatch.setenv("PALIMPSEST_TEMPORAL_NAMESPACE", "absent")
    check = _found("engine")
    assert check["status"] == "missing"
    assert check["detail"].endswith(f" at {temporal().address} has no namespace absent")
    assert "temporal operator namespace create --namespace absent" in check["fix"]


@pytest.mark.usefixtures("node")
def test_an_engine_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALIMPSEST_TEMPORAL", NOBODY)
    monkeypatch.setenv("PALIMPSEST_TEMPORAL_API_KEY", "secret-7")
    check = _found("engine")
    assert check["status"] == "missing"
    assert check["detail"].startswith(f"{NOBODY} cannot be used: The engine does not answer")
    assert check["fix"].startswith("Start Temporal, or fix PALIMPSEST_TEMPORAL")
    assert "secret-7" not in str(check)


@pytest.mark.usefixtures("node")
def test_a_node_without_broker_and_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    need("s3")
    check = _found("cluster")
    assert check["status"] == "warning"
    assert check["detail"].startswith("role all, without PALIMPSEST_BROKER: ")
    assert "; without PALIMPSEST_WORKSPACE_STORE: " in check["detail"]
    monkeypatch.setenv("PALIMPSEST_BROKER", f"redis://{NOBODY}")
    monkeypatch.setenv("PALIMPSEST_WORKSPACE_STORE", f"file://{tmp_path}")
    monkeypatch.setenv("PALIMPSEST_ROLE", "worker")
    assert _found("cluster") == {"name": "cluster", "status": "ok", "detail": "role worker", "fix": None}


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("PALIMPSEST_ROLE", "worker", "PALIMPSEST_ROLE=worker needs a cluster"),
        ("PALIMPSEST_TEMPORAL", NOBODY, "which needs a Postgres database"),
        ("PALIMPSEST_TEMPORAL", "http://there:7233", "must be like HOST:7233"),
    ],
)
def test_settings_that_do_not_fit_together(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, reason: str
) -> None:
    need("temporal")
    monkeypatch.setenv(variable, value)
    check = _found("cluster")
    assert check["status"] == "missing"
    assert reason in check["detail"]
    assert _check("engine") is None


def test_the_broker(monkeypatch: pytest.MonkeyPatch, redis: RedisServer) -> None:
    monkeypatch.setenv("PALIMPSEST_BROKER", redis.url)
    assert _found("broker")["status"] == "ok"
    redis.kill()
    check = _found("broker")
    assert check["status"] == "warning"
    assert check["fix"].startswith("Start it, or fix PALIMPSEST_BROKER.")


def test_a_store_in_s3(monkeypatch: pytest.MonkeyPatch, s3_server: S3Server) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PALIMPSEST_WORKSPACE_STORE", s3_server.url("probed"))
    check = _found("store")
    assert (check["status"], check["detail"]) == (
        "ok",
        f"bucket workspaces at 127.0.0.1:{s3_server.port}: written, read, listed and deleted",
    )
    assert not [key for key in s3_server.stored_keys() if key.startswith("probed/")]
    monkeypatch.setenv("PALIMPSEST_WORKSPACE_STORE", f"s3://absent?endpoint={s3_server.endpoint}")
    check = _found("store")
    assert check["status"] == "missing"
    assert check["detail"].startswith(
        f"an object could not be written in the bucket absent at 127.0.0.1:{s3_server.port}"
    )
    assert "that the bucket exists" in check["fix"]


def test_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    need("s3")
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PALIMPSEST_WORKSPACE_STORE", f"s3://bucket?endpoint=http://{NOBODY}")
    check = _found("store")
    assert check["status"] == "missing"
    assert check["detail"].startswith(f"an object could not be written in the bucket bucket at {NOBODY}: ")
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in str(check)


def test_a_store_in_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    need("s3")
    folder = tmp_path / "share"
    monkeypatch.setenv("PALIMPSEST_WORKSPACE_STORE", f"file://{folder}")
    assert _found("store")["detail"] == f"The folder {folder} of the workspace store does not exist."
    folder.mkdir()
    assert _found("store")["status"] == "ok"
    assert [path for path in folder.rglob("*") if path.is_file()] == []
