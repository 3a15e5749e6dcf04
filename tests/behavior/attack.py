"""A server with small sandboxes, attacks by a hostile model, and the server's health meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from tests.behavior import probe
from tests.behavior.checks import assert_sound, requests_of
from tests.behavior.harness import Client, Event, command, of_type
from tests.load import LONG
from tests.provider import FakeProvider, Reply, Text, ToolCall

P99_MS = 100 if LONG else 1500
"""Limit for the 99th percentile of `/healthz`: of its time on an idle machine, else of the server's CPU time."""

LONGEST_MS = 20_000
"""Limit for each wait for `/healthz`, which a loop that is blocked without using the CPU exceeds on any machine."""

SERVER_MB = 300
"""Memory limit of a server under any attack; at rest it uses about 120."""

MEMORY_MB, PIDS, DISK_MB = 192, 48, 2560 if LONG else 128
"""Memory limit of a sandbox under attack."""


class Running(Protocol):
    """A server in a separate process."""

    @property
    def url(self) -> str: ...
    @property
    def pid(self) -> int: ...


@dataclass
class Seen:
    """A server's health during an attack: response times of `/healthz` in milliseconds, maximum and 99th percentile, as
    `P99_MS` counts them, and the peak memory of its process in MiB."""

    worst_ms: float = 0
    p99_ms: float = 0
    memory_mb: float = 0


@contextmanager
def watched(server: Running, name: str, most_mb: float = SERVER_MB) -> Iterator[Seen]:
    """Polls `/healthz` and the memory, prints both and asserts that both stayed within limits."""
    address = urlsplit(server.url)
    argv = [sys.executable, "-I", "-S", probe.__file__, str(address.hostname), str(address.port)]
    argv += [] if LONG else [str(server.pid)]
    seen = Seen()
    prober = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert prober.stdout is not None
    try:
        prober.stdout.readline()
        with Most(lambda: memory_mb(server)) as most:
            yield seen
    finally:
        out, _ = prober.communicate()
    count, seen.worst_ms, seen.p99_ms, longest_ms = json.loads(out)
    seen.memory_mb = most.value
    print(
        f"{name}: p99 of {count} answers of /healthz {seen.p99_ms:.0f} ms, worst {seen.worst_ms:.0f} ms,"
        f" most memory {seen.memory_mb:.0f} MiB"
    )
    assert seen.p99_ms < P99_MS, name
    assert longest_ms < LONGEST_MS, name
    assert seen.memory_mb < most_mb, name


@dataclass
class Attacked:
    """The outcome of an attack: its session, the results of its calls, and the model's requests."""

    session_id: str
    results: list[Event]
    shown: dict[str, str]

    @property
    def outputs(self) -> list[str]:
        return [event.data["output"] for event in self.results]


@dataclass
class Target:
    """A running server to attack through its model."""

    url: str
    kind: str
    provider: FakeProvider
    pid: int
    _count: Iterator[int] = field(default_factory=lambda: iter(range(1000)))

    async def attack(self, client: Client, name: str, *batches: tuple[ToolCall, ...]) -> Attacked:
        """Runs each batch of calls as one step of a new session. Afterward an ordinary call must work, the strict
        provider must have accepted each request, and the session's log and history must be sound."""
        task = f"{name} {self.kind} {next(self._count)}."
        answers = [Reply(*calls) for calls in batches]
        self.provider.script_for(task, *answers, Reply(command("echo alive")), Reply(Text("done")))
        with watched(self, f"{name} in {self.kind}"):
            session, _ = await client.run(task)
        assert (session["outcome"], session["error"]) == ("completed", None)
        assert self.provider.refusals == []
        ordered = await assert_sound(client, session["id"])
        *results, last = of_type(ordered, "tool.result")
        assert (last.data["output"], last.data["exit_code"]) == ("alive\n", 0), [r.data for r in (*results, last)]
        shown = requests_of(self.provider, task)[-1].tool_results
        return Attacked(session["id"], results, shown)


def alive(mark: str) -> list[int]:
    """Live processes on this machine, in any namespace, that have `mark` among their arguments."""
    return [int(process.name) for process in Path("/proc").glob("[0-9]*") if _has(process, mark.encode())]


def _has(process: Path, mark: bytes) -> bool:
    with suppress(OSError):
        if mark in (process / "cmdline").read_bytes():
            return (process / "stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    return False


def memory_mb(server: Running) -> float:
    """Memory of the server's own process."""
    return _resident_mb(server.pid)


def resident_mb(mark: str) -> float:
    """Total memory of all processes with `mark` among their arguments."""
    return sum(map(_resident_mb, alive(mark)))


def _resident_mb(pid: int) -> float:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return 0


def shared_mb() -> float:
    """Shared memory of this machine, over all processes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Shmem:"))


class Most:
    """The maximum of a value polled in a thread."""

    def __init__(self, read: Callable[[], float]) -> None:
        self.value = 0.0
        self._read = read
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Most:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self.value = max(self.value, self._read())

    def _run(self) -> None:
        while not self._end.wait(0.05):
            self.value = max(self.value, self._read())
