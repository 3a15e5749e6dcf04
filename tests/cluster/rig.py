"""A cluster of real processes: nodes on one Postgres database, one Temporal server and one data directory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, Self

from sqlalchemy import Engine, text, update

from app.db.backends import backend_of
from app.db.models import sessions
from app.messages import now
from tests.behavior.process import ServerProcess
from tests.provider import FakeProvider

END_S = 5.0
"""Seconds that nodes may take to end after a test."""


class Cluster:
    """Starts nodes by name. Leaving the context kills those that still run."""

    def __init__(
        self, folder: Path, provider: FakeProvider, database_url: str, engine: str, settings: Mapping[str, str]
    ) -> None:
        self._folder = folder
        self._provider = provider
        self._settings = {
            "PALIMPSEST_DATABASE_URL": database_url,
            "PALIMPSEST_TEMPORAL": engine,
            **settings,
        }
        self.database: Engine = backend_of(database_url).migrating()
        self._stack = ExitStack()
        self.nodes: dict[str, ServerProcess] = {}
        (folder / "data").mkdir(mode=0o700)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A killed process reports no coverage.
        for node in self.nodes.values():
            node.ask_to_end()
        for node in self.nodes.values():
            with suppress(TimeoutExpired):
                node.await_end(END_S)
        self._stack.close()
        self.database.dispose()

    def start(self, name: str, role: str = "all", sandbox: str = "bubblewrap", **settings: str) -> ServerProcess:
        """Starts a node and waits until it is ready; its log is in a file of its name. `settings` name the image of
        sandboxes in Docker."""
        log = self._stack.enter_context((self._folder / f"{name}.log").open("a"))
        more = {**self._settings, "PALIMPSEST_ROLE": role, **settings}
        node = ServerProcess(self._folder / "data", self._provider, sandbox, "unused", more=more, stderr=log.fileno())
        self.nodes[name] = self._stack.enter_context(node)
        return node

    def start_alone(self) -> ServerProcess:
        """A server that is no node, on the same database, with a data directory of its own."""
        folder = self._folder / "alone"
        (folder / "data").mkdir(mode=0o700, parents=True)
        more = {"PALIMPSEST_DATABASE_URL": self._settings["PALIMPSEST_DATABASE_URL"]}
        return self._stack.enter_context(
            ServerProcess(folder / "data", self._provider, "bubblewrap", "unused", more=more)
        )

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()

    def row(self, session_id: str) -> dict[str, Any]:
        """Who owns a session, and how often it was claimed."""
        with self.database.connect() as connection:
            query = text("SELECT owner, epoch, nudges, status FROM sessions WHERE id = :id")
            return dict(connection.execute(query, {"id": session_id}).mappings().one())

    def age(self, session_id: str) -> None:
        """Makes the session's last change a minute old, so that the first sweep of the next node finds it."""
        change = update(sessions).where(sessions.c.id == session_id).values(updated_at=now() - timedelta(minutes=1))
        with self.database.begin() as connection:
            connection.execute(change)

    def worker_of(self, session_id: str) -> str:
        """The name of the node whose log says that it runs the session's newest run."""
        return next(
            name
            for name in self.nodes
            if any(session_id in line and "run_started" in line for line in self.log(name).splitlines())
        )
