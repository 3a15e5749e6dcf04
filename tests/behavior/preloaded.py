"""Processes of the service that are forked from one that has already imported it, which saves each of them more than a
second of CPU time. Run as a program, it is that one: it gets requests over the socket whose descriptor is its first
argument; the others are modules that it imports beside those that each server needs.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import inspect
import json
import os
import posix
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock, RLock
from typing import Any, TextIO

import coverage

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PALIMPSEST_")}
"""As it is before any test: the first one that starts a process may have cleared it."""
MEASURE = "COVERAGE_PROCESS_CONFIG"
"""With this variable, coverage.py measures the processes that tests start."""
PR_SET_CHILD_SUBREAPER = 36
_forking = Lock()
"""Held while a process is forked, which changes what this one is to all orphans."""
REQUEST_BYTES = 128 * 1024
IMPORTED = (
    *(f"app.cli.{name}" for name in ("attach", "client", "evaluate", "live", "run", "serve", "sessions", "startup")),
    *(f"uvicorn.{name}.auto" for name in ("loops", "protocols.http")),
    "uvicorn.lifespan.off",
    *("anyio._backends._asyncio", "genai_prices.data", "httpcore", "uvloop"),
)
IMPORTED_BY_NODES = (
    *(f"app.cluster.{name}" for name in ("membership", "node", "object_store", "relay", "webhook_leases", "worker")),
    *("psycopg", "redis.asyncio", "sqlalchemy.dialects.postgresql.psycopg"),
)
"""What a server on its own never imports."""


@dataclass
class Forked:
    """A process as `subprocess.Popen` shows one; standard output is a pipe, or None if it goes elsewhere."""

    pid: int
    stdout: TextIO | None = None
    returncode: int | None = None
    _lock: RLock = field(default_factory=RLock, repr=False)

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self, timeout: float) -> int:
        """Its exit code, negative after a signal. Raises `TimeoutExpired`."""
        with self._lock:
            end = os.pidfd_open(self.pid) if self.poll() is None else None
        if end is not None:
            try:
                select.select([end], [], [], timeout)
            finally:
                os.close(end)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("palimpsest", timeout)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        with self._lock:
            if self.poll() is None:
                os.kill(self.pid, number)


def fork(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    streams: tuple[int, int, int],
    files: tuple[int, int] | None = None,
    program: str = "app.cli",
) -> Forked:
    """Starts a program, the module whose `main` is run, with these arguments and standard streams. `files` are the
    limits of open files, soft and hard."""
    measured = {MEASURE: ENVIRONMENT[MEASURE]} if MEASURE in ENVIRONMENT else {}
    request = {
        "arguments": [*arguments],
        "env": {**env, **measured},
        "cwd": str(cwd),
        "files": files,
        "program": program,
    }
    with _forking:
        return Forked(_origin("PALIMPSEST_TEMPORAL" in env).fork(request, [*streams]))


def start(arguments: Sequence[str], *, stderr: int, **more: Any) -> Forked:
    """Starts a process with nothing to read and with its standard output in a pipe; see `fork`."""
    ours, theirs = os.pipe()
    with open(os.devnull) as nothing:
        try:
            forked = fork(arguments, streams=(nothing.fileno(), theirs, stderr), **more)
        finally:
            os.close(theirs)
    forked.stdout = os.fdopen(ours)
    return forked


class Origin:
    """The process that the others are forked from; `nodes` are those of a cluster. It is not measured: each fork would
    save the measurements of all that it descends from."""

    def __init__(self, *, nodes: bool) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), *(IMPORTED_BY_NODES if nodes else ())],
                pass_fds=[theirs.fileno()],
                cwd=ROOT,
                env={name: value for name, value in ENVIRONMENT.items() if name != MEASURE},
            )
        atexit.register(self._end)

    def fork(self, request: dict[str, Any], descriptors: list[int]) -> int:
        """The new process, a child of this one: it becomes so when the process between the two ends."""
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(self._channel, [json.dumps(request).encode()], descriptors)
            return int(self._channel.recv(64))
        finally:
            prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def _end(self) -> None:
        self._channel.close()
        self._process.wait(30)


@cache
def _origin(nodes: bool) -> Origin:
    return Origin(nodes=nodes)


def main() -> None:
    """Serves requests until the other end is closed; in each new process, runs the service and returns."""
    for name in (*IMPORTED, *sys.argv[2:]):
        import_module(name)
    import_module("app.cli.commands").command_line()
    import_module("app.llm.catalog").Catalog().info("openai/none", key_present=False)  # compiles patterns of names
    inspect.stack()  # looks up the files of all modules, as coverage.py would in each new process
    gc.freeze()  # the pages of what was imported stay shared
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        wanted = _await_fork(channel)
    if wanted is not None:
        _become(*wanted)
        try:
            import_module(wanted[0]["program"]).main(default="serve")
        except SystemExit as ended:
            _end(ended)


def _await_fork(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Returns a request and its descriptors in a new process, and None in this one when no more will come."""
    while True:
        message, descriptors, *_ = socket.recv_fds(channel, REQUEST_BYTES, 3)
        if not message:
            return None
        reader, writer = os.pipe()
        if (between := os.fork()) == 0:
            if (pid := os.fork()) == 0:
                os.close(reader)
                os.close(writer)
                return json.loads(message), descriptors
            os.write(writer, str(pid).encode())
            posix._exit(0)
        os.waitpid(between, 0)
        channel.send(os.read(reader, 64))
        for descriptor in (reader, writer, *descriptors):
            os.close(descriptor)


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Takes over the arguments, the environment, the directory and the standard streams."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", buffering=1, closefd=False)
    sys.argv = [str(ROOT / "app" / "__main__.py"), *request["arguments"]]
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.chdir(request["cwd"])
    if MEASURE in os.environ:
        _measure(os.environ[MEASURE])
    if request["files"] is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, tuple(request["files"]))


def _measure(config: str) -> None:
    """Like `coverage.process_startup`, but does not look for files that were never executed: the process of the tests
    does, and here it would take as long as many a command."""
    measured = coverage.Coverage(config_file=f":data:{config}")
    sources = measured.get_option("run:source")
    assert isinstance(sources, list)
    measured.set_option("run:include", [f"{source}/*" for source in sources])
    measured.set_option("run:source", None)
    measured.set_option("run:disable_warnings", ["no-data-collected"])
    atexit.register(measured.save)  # which coverage.py ends before
    measured.start()


def _end(ended: SystemExit) -> None:
    """Ends the process as the interpreter does, but leaves the modules alone: taking them apart takes as long as most
    commands. coverage.py has saved its data then, and would do so again in `os._exit`. Raises `SystemExit` if there is
    more to do than return a number."""
    code = ended.code or 0
    if not isinstance(code, int):
        raise ended
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    posix._exit(code)


if __name__ == "__main__":
    main()
