"""The settings of a cluster's node: what does not fit together keeps the server from starting, and a server on its own
loads nothing of a cluster."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import pytest

from app.server import StartError, make_server
from app.settings import Settings

POSTGRES = "postgresql://h/d"


def settings(**values: Any) -> Settings:
    return Settings(_env_file=None, **values)


@pytest.mark.parametrize("role", ["api", "worker"])
def test_a_role_needs_a_cluster(role: str) -> None:
    with pytest.raises(StartError, match=f"PALIMPSEST_ROLE={role} needs a cluster: set PALIMPSEST_TEMPORAL"):
        make_server(settings(role=role, database_url=POSTGRES), lambda _: None)


def test_a_cluster_needs_postgres() -> None:
    with pytest.raises(StartError, match="needs a Postgres database that all nodes reach"):
        make_server(settings(temporal="127.0.0.1:7233"), lambda _: None)


def test_a_missing_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("app.bootstrap.cluster.find_spec", lambda name: None if name == "temporalio" else found(name))
    with pytest.raises(StartError, match=r"pip install 'palimpsest\[cluster\]'"):
        make_server(settings(temporal="127.0.0.1:7233", database_url=POSTGRES), lambda _: None)


def test_a_server_on_its_own_imports_nothing_of_a_cluster() -> None:
    code = (
        "import sys, app.cli.serve, app.cli.run, app.bootstrap.service\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('temporalio', 'psycopg')"
        " or name.startswith('app.cluster')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
