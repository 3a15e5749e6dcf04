"""The settings of a cluster's node: what does not fit together keeps the server from starting, and a server on its own
loads nothing of a cluster."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
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


@pytest.mark.parametrize("address", ["http://h:7233", "h", "user@h:7233", "h:7233/namespace", "::1:7233", ""])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    with pytest.raises(StartError, match="must be like HOST:7233"):
        make_server(settings(temporal=address, database_url=POSTGRES), lambda _: None)


def test_a_missing_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("app.bootstrap.cluster.find_spec", lambda name: None if name == "temporalio" else found(name))
    with pytest.raises(StartError, match=r"pip install 'palimpsest\[cluster\]'"):
        make_server(settings(temporal="127.0.0.1:7233", database_url=POSTGRES), lambda _: None)


STARTED = """
import asyncio, json, sys
from app.cli.startup import loading
with loading():
    import app.cli.serve
from app.server import bind, make_server
from app.settings import Settings

async def main():
    settings = Settings(_env_file=None, data_dir=sys.argv[1], port=0)
    ready = asyncio.Event()
    server = make_server(settings, lambda _: ready.set())
    with bind(settings) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        assert ready.is_set()
        print(json.dumps(list(sys.modules)))
        server.should_exit = True
        await serving

asyncio.run(main())
"""


def test_a_server_imports_nothing_that_it_may_never_need(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PALIMPSEST_")}
    command = [sys.executable, "-c", STARTED, str(tmp_path / "data")]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert ran.returncode == 0, ran.stderr
    [modules] = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('["')]
    libraries = {name.partition(".")[0] for name in modules}
    assert "sqlalchemy" in libraries
    assert libraries.isdisjoint({"temporalio", "redis", "hiredis", "psycopg", "obstore"})
    assert not [name for name in modules if name.startswith("app.cluster")]
    assert libraries.isdisjoint({"mcp", "mcp_types", "httpcore2"}), "it is for sessions with MCP servers"
    assert libraries.isdisjoint({"rich", "yaml", "imagesize"}), "for a terminal, skills and images"
