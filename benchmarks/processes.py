"""The servers of a run, each in a separate process, and their resource use."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.http import Connection

START_TIMEOUT_S = 60
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PROVIDER = "measure"
WINDOW = 1_000_000_000
"""Context window of the models in tokens: large enough that nothing is compacted while steps are measured."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    pid: int
    port: int

    def cpu_s(self) -> float:
        """CPU time of all its threads so far, user and system, in seconds."""
        return cpu_seconds(Path(f"/proc/{self.pid}/stat").read_text())

    def resident_bytes(self) -> int:
        """Its resident memory."""
        return resident(Path(f"/proc/{self.pid}/status").read_text())

    def open_files(self) -> int:
        """Its open files, sockets included."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))


def cpu_seconds(stat: str) -> float:
    """utime + stime of a `/proc/PID/stat` line; the process name in it may contain spaces and parentheses."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def resident(status: str) -> int:
    """Bytes of `VmRSS` in a `/proc/PID/status` text."""
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


@dataclass(frozen=True, slots=True)
class Bench:
    """The three servers of a run. In a cluster, `service` is the node that gets requests, and `reading` the one that
    readers of streams are connected to."""

    source: Server
    floor: Server
    service: Server
    reading: Server | None = None


@asynccontextmanager
async def start_all() -> AsyncIterator[Bench]:
    """Starts source, floor and service; ends them on exit."""
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(start_source())
        url = f"http://127.0.0.1:{source.port}"
        floor = await stack.enter_async_context(_module("benchmarks.floor", url))
        service = await stack.enter_async_context(start_service(source))
        yield Bench(source, floor, service)


@asynccontextmanager
async def start_source() -> AsyncIterator[Server]:
    """Starts only the model."""
    async with _module("benchmarks.source") as source:
        yield source


@asynccontextmanager
async def start_service(
    source: Server, *, endless: Sequence[str] = ("steps-short", "steps-long"), settings: Mapping[str, str] | None = None
) -> AsyncIterator[Server]:
    """Starts the installed service on a new data directory, with the source as its provider. `endless` are models whose
    window never fills; `settings` are variables in addition to the common ones."""
    with tempfile.TemporaryDirectory(prefix="palimpsest-bench-") as data_dir:
        port = free_port()
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PALIMPSEST_")},
            "PALIMPSEST_DATA_DIR": data_dir,
            "PALIMPSEST_PORT": str(port),
            # Commands are not measured, and the numbers must not depend on the machine's sandbox.
            "PALIMPSEST_SANDBOX": "local-unsafe",
            "PALIMPSEST_LOG_LEVEL": "warning",
            # The source makes the same call in every step.
            "PALIMPSEST_LOOP_GUARD_TELL": "0",
            "PALIMPSEST_PROVIDERS": json.dumps(
                {PROVIDER: {"kind": "openai", "base_url": f"http://127.0.0.1:{source.port}/v1"}}
            ),
            "PALIMPSEST_MODELS": json.dumps({f"{PROVIDER}/{name}": {"context_window": WINDOW} for name in endless}),
            **(settings or {}),
        }
        async with start_process([sys.executable, "-m", "app", "serve"], port, "/readyz", environment) as server:
            yield server


@asynccontextmanager
async def _module(name: str, *arguments: str) -> AsyncIterator[Server]:
    port = free_port()
    command = [sys.executable, "-m", name, str(port), *arguments]
    async with start_process(command, port, "/", dict(os.environ)) as server:
        yield server


@asynccontextmanager
async def start_process(
    command: Sequence[str], port: int, probe: str, environment: Mapping[str, str], folder: Path | None = None
) -> AsyncIterator[Server]:
    """Starts a server in a folder, by default this one, and waits until it answers `probe`; ends it on exit."""
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(*command, env=environment, cwd=folder, stdout=log, stderr=log)
        try:
            # The floor answers its probe by requesting a model without a name from the source, which ends at once.
            await _ready(process, port, probe)
            yield Server(process.pid, port)
        except BaseException:
            log.seek(0)
            sys.stderr.buffer.write(log.read()[-4000:])
            raise
        finally:
            if process.returncode is None:
                # Killed: open streams would delay a graceful shutdown, and nothing of it is needed any more.
                process.kill()
                await process.wait()


async def _ready(process: asyncio.subprocess.Process, port: int, probe: str) -> None:
    """Waits until the server answers. Raises `RuntimeError` if it ends instead."""
    async with asyncio.timeout(START_TIMEOUT_S):
        while process.returncode is None:
            try:
                # A request that arrives too early may never be answered.
                async with asyncio.timeout(5), Connection(port) as connection:
                    status, _ = await connection.request("GET", probe)
                if status == 200:
                    return
            except OSError:
                pass
            await asyncio.sleep(0.05)
    raise RuntimeError("A server of the benchmark ended before it was ready; its output is above.")


def free_port() -> int:
    """A port that is currently free."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
