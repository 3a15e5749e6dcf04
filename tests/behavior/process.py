"""The server as a separate process, so that it can be killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from tests.behavior.harness import ANTHROPIC, OPENAI, RESPONSES
from tests.behavior.preloaded import ROOT as ROOT
from tests.behavior.preloaded import Forked, start
from tests.databases import database_environment, in_cluster, make_database
from tests.provider import FakeProvider


@dataclass
class ServerProcess:
    """`python -m app serve`, on a free port unless one is given. Its log goes to a file, or to the descriptor `stderr`;
    `files` is how many it may have open: the soft limit and the hard one. It is forked from a process that has already
    imported it, unless `wrapper` is a program that starts it. Leaving the context kills it if it still runs."""

    data_dir: Path
    provider: FakeProvider
    sandbox: str
    image: str
    more: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    stderr: int | None = None
    files: tuple[int, int] | None = None
    wrapper: Sequence[str] = ()
    url: str = ""
    _process: subprocess.Popen[str] | Forked | None = None

    def __enter__(self) -> Self:
        if in_cluster() and "PALIMPSEST_TEMPORAL" not in self.more:
            pytest.fail("this test starts a single server: it belongs into tests/behavior/not_in_cluster.py")
        if not self.data_dir.exists():
            make_database(self.data_dir / "palimpsest.db")
        with (self.data_dir.parent / "server.log").open("a") as log:
            self._process = self._start(log.fileno() if self.stderr is None else self.stderr)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found is None:
            self.end(signal.SIGKILL)
            pytest.fail(f"the server did not start: {line} {self.log}")
        self.url = found[0]
        self._await_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGKILL)

    def _start(self, stderr: int) -> subprocess.Popen[str] | Forked:
        """Starts it in a directory without a `.env`."""
        arguments, env, cwd = ("serve", "--port", str(self.port)), self._environment(), self.data_dir.parent
        if not self.wrapper:
            return start(arguments, env=env, cwd=cwd, stderr=stderr, files=self.files)
        argv = [*self.wrapper, sys.executable, "-m", "app", *arguments]
        return subprocess.Popen(argv, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=stderr, text=True)

    def _await_ready(self) -> None:
        """It has said where it will listen, which is a moment before it does."""
        # `verify` has no effect on HTTP; without it, each client would load the machine's certificates.
        deadline = time.monotonic() + 60
        with httpx.Client(base_url=self.url, trust_env=False, verify=False, timeout=60) as client:
            while time.monotonic() < deadline:
                with suppress(httpx.ConnectError):
                    if client.get("/readyz").status_code == 200:
                        return
                time.sleep(0.01)
        pytest.fail(f"the server did not get ready: {self.log}")

    def ask_to_end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Sends a signal that ends it, and waits for nothing."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(how)
            self._process.send_signal(signal.SIGCONT)  # a frozen process handles signals only then

    def await_end(self, seconds: float) -> int:
        """Waits for the end; the exit code."""
        assert self._process is not None
        return self._process.wait(seconds)

    def end(self, how: signal.Signals) -> int:
        """Sends a signal and waits for the end; the exit code."""
        assert self._process is not None
        self.ask_to_end(how)
        code = self.await_end(60)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def freeze(self) -> None:
        """Stops it with SIGSTOP, so that it keeps its port and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets it continue."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    @property
    def log(self) -> str:
        return (self.data_dir.parent / "server.log").read_text()

    def _environment(self) -> dict[str, str]:
        providers = {
            "fake-openai": {"kind": "openai", "base_url": self.provider.openai_url},
            "fake-anthropic": {"kind": "anthropic", "base_url": self.provider.url},
            "fake-responses": {"kind": "openai-responses", "base_url": self.provider.openai_url},
        }
        models: dict[str, Any] = {name: {"context_window": 128_000} for name in (OPENAI, ANTHROPIC, RESPONSES)}
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PALIMPSEST_DATA_DIR": str(self.data_dir),
            "PALIMPSEST_MODEL": OPENAI,
            "PALIMPSEST_MODELS": json.dumps(models),
            "PALIMPSEST_PROVIDERS": json.dumps(providers),
            "PALIMPSEST_SANDBOX": self.sandbox,
            "PALIMPSEST_SANDBOX_IMAGE": self.image,
            "PALIMPSEST_LOG_FORMAT": "json",
            **database_environment(self.data_dir),
            **self.more,
        }
