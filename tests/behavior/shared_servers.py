"""Servers that tests share: a start takes more CPU time than most tests, and many tests need the same settings."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.behavior import clustered
from tests.behavior.harness import RunningServer, settings_for
from tests.databases import in_cluster, make_database, retire_database
from tests.provider import FakeProvider
from tests.provider.server import running_provider


class SharedServers:
    """The servers of the tests that use `server_with`, or `server` with the mark `shared_server`, by their settings;
    those used last stay up. They have one provider, since its address is one of the settings."""

    KEPT = 2 if in_cluster() else 4
    """Even at rest, a cluster takes 5 % of a core. A server alone takes nothing, and then tests with and without
    settings of their own follow each other in any order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()
        self._running: list[tuple[dict[str, Any], RunningServer]] = []
        """With their settings, in the order of their last use. Not by a text of these, which hides secrets."""
        self._stack = ExitStack()

    @cached_property
    def provider(self) -> FakeProvider:
        return self._stack.enter_context(running_provider())

    def get(self, **settings: Any) -> RunningServer:
        """A server with these settings, and without sessions unless the test has made some."""
        kept = next((each for each in self._running if each[0] == settings), None)
        if kept is None:
            kept = settings, self._start(settings)
        else:
            self._running.remove(kept)
        self._running.append(kept)
        return kept[1]

    def _start(self, settings: dict[str, Any]) -> RunningServer:
        self.stop(keep=self.KEPT - 1)
        data_dir = self._folder / str(next(self._numbers))
        make_database(data_dir / "palimpsest.db", keep=True)
        return clustered.start(settings_for(data_dir, self.provider, "bubblewrap", **settings))

    def stop(self, *, keep: int = 0) -> None:
        """Stops servers, and keeps some of those that were used last."""
        while len(self._running) > keep:
            _, server = self._running.pop(0)
            server.stop()
            retire_database(server.settings.data_dir / "palimpsest.db")

    def close(self) -> None:
        self.stop()
        self._stack.close()


def is_sharing(item: pytest.Item) -> bool:
    """Whether the test uses a shared server."""
    fixtures = getattr(item, "fixturenames", ())
    marked = "server" in fixtures and item.get_closest_marker("shared_server") is not None
    return marked or "server_with" in fixtures


def delete_sessions(server: RunningServer) -> None:
    headers = [("Authorization", f"Bearer {key.get_secret_value()}") for key in server.settings.api_keys[:1]]
    with httpx.Client(base_url=server.url, headers=headers, timeout=30, trust_env=False, verify=False) as http:
        while items := http.get("/v1/sessions").raise_for_status().json()["items"]:
            for session in items:
                http.delete(f"/v1/sessions/{session['id']}").raise_for_status()
