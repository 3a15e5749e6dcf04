"""The server of the page, with the strict fake provider."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.behavior.harness import OPENAI
from tests.behavior.long_task import asks_for_summary
from tests.behavior.process import ServerProcess
from tests.databases import make_database
from tests.provider import DONE, FakeProvider, RecordedRequest, Reply, Text, running_provider

SMALL = "fake-openai/small"
"""A model whose context window is full after a few steps."""

SMALL_WINDOW = 6_300

SHORT_TAIL = {"policy": "reactive", "tail_tokens": 300, "min_turns_to_keep": 0, "recent_messages_to_keep": 2}
"""Settings that leave something to compact in a session of a few steps."""


@dataclass
class Script:
    """The model's answers to one task, step by step; requests for a summary get the summary."""

    task: str
    answers: list[Any]
    summary: str = "## Completed Work\n\nThe first steps of the task.\n\n## Next Step\n\nGo on."
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def concerns(self, request: RecordedRequest) -> bool:
        return any(self.task in text for text in request.user_texts)

    def __call__(self, request: RecordedRequest) -> Any:
        if asks_for_summary(request):
            return Reply(Text(f"{self.summary}\n\nThe task was: {self.task}"))
        with self._lock:
            return self.answers.pop(0) if self.answers else DONE


@dataclass
class Site:
    """A server and its provider. Tests that share it use unique tasks for their sessions."""

    server: ServerProcess
    provider: FakeProvider
    _tasks: int = 0

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def folder(self) -> Path:
        return self.server.data_dir.parent

    def task(self, text: str, *answers: Any) -> str:
        """A unique task, for which the model gives these answers."""
        self._tasks += 1
        task = f"{text} [{self._tasks}]"
        script = Script(task, list(answers))
        self.provider.respond(script, when=script.concerns)
        return task


def server(
    folder: Path,
    provider: FakeProvider,
    sandbox: str = "bubblewrap",
    *,
    port: int = 0,
    environment: Mapping[str, str] | None = None,
) -> ServerProcess:
    """A server with its data in a folder, and the models, compaction and extra `environment` of these tests."""
    windows = {OPENAI: 128_000, SMALL: SMALL_WINDOW}
    more = {
        "PALIMPSEST_MODELS": json.dumps({name: {"context_window": window} for name, window in windows.items()}),
        "PALIMPSEST_COMPACTION": json.dumps(SHORT_TAIL),
        **(environment or {}),
    }
    image = os.environ.get("PALIMPSEST_TEST_IMAGE", "palimpsest/test-busybox:latest")
    return ServerProcess(folder / "data", provider, sandbox, image, more, port)


@contextmanager
def serving(folder: Path, sandbox: str = "bubblewrap", **environment: str) -> Iterator[Site]:
    """A separate site in a folder, without any settings from the machine's environment."""
    with pytest.MonkeyPatch.context() as patch, running_provider(windows={"small": SMALL_WINDOW}) as provider:
        # Coverage is measured by the API tests; here it would only slow down the server.
        foreign = ("PALIMPSEST_", "OPENAI_", "ANTHROPIC_", "COVERAGE_")
        for name in [*os.environ]:
            if name.startswith(foreign) and not name.startswith("PALIMPSEST_TEST_"):
                patch.delenv(name)
        # Several tests may use the site.
        make_database(folder / "data" / "palimpsest.db", keep=True)
        with server(folder, provider, sandbox, environment=environment) as process:
            yield Site(process, provider)
        assert provider.broken == []


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


def link(session_id: str, view: str = "") -> str:
    """The address of a session's view, below the server's."""
    return f"/#/sessions/{session_id}" + (f"/{view}" if view else "")
