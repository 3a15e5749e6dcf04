"""The server that the page is opened from, with the strict provider behind it."""

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

from tests.behaviour.harness import OPENAI
from tests.behaviour.long_task import asks_for_summary
from tests.behaviour.process import ServerProcess
from tests.provider import DONE, FakeProvider, RecordedRequest, Reply, Text, running_provider

SMALL = "fake-openai/small"
"""A model whose window is full after a few steps."""

SMALL_WINDOW = 6_300

SHORT_TAIL = {"policy": "reactive", "tail_tokens": 300, "min_turns_to_keep": 0, "recent_messages_to_keep": 2}
"""Settings that leave something to compact in a session of a few steps."""


@dataclass
class Script:
    """What the model says to one task, step by step; where a summary is asked for, it writes one."""

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
    """A server and its provider. Tests that share it tell their sessions apart by their tasks."""

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
        """A task that no other session has, to which the model answers in this way."""
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
    """A server on a folder's data, with the models and the compaction of these tests; `environment` is set besides."""
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
    """A site of its own in a folder, as on a machine without settings."""
    with pytest.MonkeyPatch.context() as patch, running_provider(windows={"small": SMALL_WINDOW}) as provider:
        # Coverage is measured where the API is tested; here it would slow down what the page waits for.
        foreign = ("PALIMPSEST_", "OPENAI_", "ANTHROPIC_", "COVERAGE_")
        for name in [*os.environ]:
            if name.startswith(foreign) and not name.startswith("PALIMPSEST_TEST_"):
                patch.delenv(name)
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
