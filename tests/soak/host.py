"""The server of a run: a process from the command line, killed and started again on one port and one directory."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx

from tests.behavior.preloaded import Forked, fork
from tests.databases import database_environment
from tests.provider import FakeProvider
from tests.soak import served
from tests.soak.plan import MODELS, SMALL_MODELS
from tests.soak.proc import Cost, cost_of
from tests.soak.served import ANSWER, ASK

ROOT = Path(__file__).resolve().parents[2]
FORKED = "SOAK_FORKED"
"""With this variable, servers are forked from a process that has already imported the service, which saves each more
than a second of CPU time; a clock that can be set needs a process of its own."""
START_S = 120
"""Timeout for a start on a busy machine, in seconds."""
STOP_S = 90
TELL_S = 30
"""Timeout for the server to report its resources."""
SMALL_WINDOW = 12_000
"""Window of the small models in tokens: a few long outputs fill it."""
SMALLEST_WINDOW = 7_000
"""The same for repeated kills: two long outputs fill it."""
LARGE_WINDOW = 128_000
IDLE_TIMEOUT_S = 3
"""Seconds without a byte after which a model call fails; a run's stalls exceed it."""
SANDBOX_IDLE_S = 5


class ServerFailed(Exception):
    """The server did not start, or did not stop."""


def free_port() -> int:
    """A port below those that the kernel gives to clients, so that none takes it while the server is down."""
    for port in random.SystemRandom().sample(range(20_000, 30_000), 50):
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise ServerFailed("no free port was found")


class Host:
    """Starts and ends the server's lives. `clock` is what makes its wall clock one that can be set. The first life goes
    without it, and every second one after that: with that library, `time.sleep` fails in the server."""

    def __init__(
        self,
        data_dir: Path,
        log: Path,
        provider: FakeProvider,
        sandbox: str,
        image: str,
        clock: Mapping[str, str],
        small_window: int = SMALL_WINDOW,
    ) -> None:
        self.data_dir = data_dir
        self.log = log
        self.port = free_port()
        self.lives = 0
        self.pids: list[int] = []
        self.changing = asyncio.Lock()
        """Held while ending, starting or freezing the server."""
        self._provider = provider
        self._sandbox = sandbox
        self._image = image
        self._clock = clock
        self._small_window = small_window
        self.has_clock = True
        """Whether the clock of the life under way can be set."""
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self._answer = log.parent / "held"
        self.started_at = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Set if the server has ended."""
        return self._process.poll() if self._process is not None else None

    @property
    def database(self) -> Path:
        return self.data_dir / "palimpsest.db"

    def cost(self) -> Cost:
        return cost_of(self.pid)

    async def held(self) -> Cost:
        """What the server needs, after it has looked for garbage and given back what is free. Raises `ServerFailed`
        where it does not say."""
        self._answer.unlink(missing_ok=True)
        self.signal(ASK)
        deadline = time.monotonic() + TELL_S
        while not self._answer.exists():
            if time.monotonic() > deadline:
                raise ServerFailed(f"the server did not say within {TELL_S} s what it holds")
            await asyncio.sleep(0.02)
        told = json.loads(self._answer.read_text())
        return replace(await asyncio.to_thread(self.cost), blocks=told["blocks"], pools=told["pools"])

    async def start(self) -> float:
        """Starts a server and waits until it answers; returns the seconds that took. Raises `ServerFailed`."""
        begun = time.monotonic()
        self.has_clock = bool(self._clock) and not self.has_clock
        self._process = await asyncio.to_thread(self._launch)
        self.pids.append(self._process.pid)
        await self._answering(begun + START_S)
        self.lives += 1
        self.started_at = time.monotonic()
        return self.started_at - begun

    def _launch(self) -> subprocess.Popen[bytes] | Forked:
        """Starts the process in a directory without `.env`."""
        arguments, env, cwd = ("serve", "--port", str(self.port)), self._environment(), self.log.parent
        with self.log.open("ab") as log, open(os.devnull, "rb") as nothing:
            if FORKED in os.environ and not self.has_clock:
                streams = (nothing.fileno(), log.fileno(), log.fileno())
                return fork(arguments, env=env, cwd=cwd, streams=streams, program=served.__name__)
            command = [sys.executable, "-m", served.__name__, *arguments]
            return subprocess.Popen(command, env=env, cwd=cwd, stdin=nothing, stdout=log, stderr=log)

    async def _answering(self, deadline: float) -> None:
        async with httpx.AsyncClient(base_url=self.url, trust_env=False, verify=False, timeout=START_S) as http:
            while time.monotonic() < deadline:
                if self.exit_code is not None:
                    raise ServerFailed(f"the server ended with {self.exit_code} while it started")
                with suppress(httpx.TransportError):
                    if (await http.get("/healthz")).status_code == 200:
                        return
                await asyncio.sleep(0.05)
        raise ServerFailed(f"the server did not answer within {START_S} s")

    async def end(self, how: signal.Signals) -> int:
        """Ends the life under way with a signal; the exit code. Raises `ServerFailed` where it stays."""
        assert self._process is not None
        self.signal(how)
        try:
            return await asyncio.to_thread(self._process.wait, STOP_S)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, STOP_S)
            raise ServerFailed(f"the server did not end within {STOP_S} s after {how.name}") from None

    def signal(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)

    def _environment(self) -> dict[str, str]:
        providers = {
            "soak-openai": {"kind": "openai", "base_url": self._provider.openai_url},
            "soak-anthropic": {"kind": "anthropic", "base_url": self._provider.url},
        }
        windows = {name: self._small_window if name in SMALL_MODELS else LARGE_WINDOW for name in MODELS}
        # With coverage measured in it, the server's time and memory would be another's.
        foreign = ("PALIMPSEST_", "OPENAI_", "ANTHROPIC_", "COVERAGE_")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return {
            **inherited,
            "PYTHONPATH": str(ROOT),
            "PALIMPSEST_DATA_DIR": str(self.data_dir),
            **database_environment(self.data_dir),
            "PALIMPSEST_PROVIDERS": json.dumps(providers),
            "PALIMPSEST_MODEL": MODELS[0],
            "PALIMPSEST_MODELS": json.dumps({name: {"context_window": size} for name, size in windows.items()}),
            "PALIMPSEST_PROVIDER_IDLE_TIMEOUT_S": str(IDLE_TIMEOUT_S),
            "PALIMPSEST_SANDBOX": self._sandbox,
            "PALIMPSEST_SANDBOX_IMAGE": self._image,
            "PALIMPSEST_SANDBOX_IDLE_S": str(SANDBOX_IDLE_S),
            "PALIMPSEST_MCP_NETWORKS": "127.0.0.0/8",
            "PALIMPSEST_LOG_LEVEL": "warning",
            "PALIMPSEST_LOG_FORMAT": "json",
            ANSWER: str(self._answer),
            **(self._clock if self.has_clock else {}),
        }
