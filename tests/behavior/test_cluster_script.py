"""A cluster as `python -m scripts.cluster` starts it, used as its user does: through the proxy, with nodes killed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from typing import Self

import httpx
import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.harness import OPENAI, Client, command, of_type
from tests.behavior.preloaded import ROOT
from tests.provider import FakeProvider, Gate, Reply, Text
from tests.requirements import need

START_S = 90.0


class Script:
    """The script as a process. `lines` are those that it has printed."""

    def __init__(self, provider: FakeProvider, *options: str) -> None:
        self._env = {
            **os.environ,
            "PALIMPSEST_MODEL": OPENAI,
            "PALIMPSEST_MODELS": json.dumps({OPENAI: {"context_window": 128_000}}),
            "PALIMPSEST_PROVIDERS": json.dumps({"fake-openai": {"kind": "openai", "base_url": provider.openai_url}}),
            "PALIMPSEST_SANDBOX": "bubblewrap",
        }
        self._options = options
        self.lines: list[str] = []
        self._new: Queue[str] = Queue()

    def __enter__(self) -> Self:
        argv = [sys.executable, "-m", "scripts.cluster", *self._options]
        self._process = subprocess.Popen(
            argv, cwd=ROOT, env=self._env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(30)
        self._reader.join(30)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._new.put(line)

    def await_line(self, pattern: str, seconds: float = START_S) -> re.Match[str]:
        """The first match in a line that it prints from now on."""
        while True:
            self.lines.append(self._new.get(timeout=seconds))
            if (found := re.search(pattern, self.lines[-1])) is not None:
                return found

    def interrupt(self) -> int:
        """Ctrl-C; the exit status."""
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(90)

    def nodes(self) -> dict[str, tuple[str, int]]:
        """URL and pid of each node, by its name."""
        found = re.findall(r"^  ((?:api|worker)-\d+) +(\S+) +pid (\d+)$", "".join(self.lines), re.M)
        return {name: (url, int(pid)) for name, url, pid in found}


@pytest.fixture
def data() -> Iterator[Path]:
    """A folder that Postgres reaches, which has an account of its own; pytest's are open to their owner only."""
    with TemporaryDirectory(prefix="palimpsest-cluster-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.fixture
def script(data: Path, provider: FakeProvider) -> Iterator[Script]:
    for kind in ("postgres", "temporal", "redis", "s3", "bubblewrap"):
        need(kind)
    with Script(provider, "--api", "2", "--workers", "2", "--port", "0", "--data", str(data)) as script:
        yield script


def _owner(logs: Path, session_id: str) -> str:
    """The worker whose log has the start of the session's newest run."""
    names = [
        log.stem
        for log in logs.glob("worker-*.log")
        if any(session_id in line and "run_started" in line for line in log.read_text().splitlines())
    ]
    assert len(names) == 1
    return names[0]


@pytest.mark.slow
async def test_a_worker_is_killed_and_the_session_finishes(script: Script, provider: FakeProvider, data: Path) -> None:
    provider.script(
        Reply(command("echo ran >> runs")),
        Reply(Text("half of it", 3), Gate("half")),
        Reply(command("cat runs")),
        Reply(Text("Done.")),
    )
    url = (await asyncio.to_thread(script.await_line, r"ready at (http://127\.0\.0\.1:\d+)$"))[1]
    await asyncio.to_thread(script.await_line, "Ctrl-C")
    nodes = script.nodes()
    assert sorted(nodes) == ["api-1", "api-2", "worker-1", "worker-2"]
    async with Client(url) as user:
        session_id = (await user.create("begin"))["id"]
        await provider.reached("half")
        # The start of a step is stored while its model is asked already; a step that is not stored is made again.
        await user.wait_for(session_id, lambda event: event.type == "step.started" and event.data["step"] == 2)
        owner = _owner(data / "logs", session_id)
        os.kill(nodes[owner][1], signal.SIGKILL)
        await asyncio.to_thread(script.await_line, rf"{owner} \(pid {nodes[owner][1]}\) has ended: SIGKILL")
        # An API node too: the proxy takes the other one for new connections.
        os.kill(nodes["api-1"][1], signal.SIGKILL)
        await asyncio.to_thread(script.await_line, r"api-1 .* has ended: SIGKILL")
    async with Client(url) as user:
        await user.until_idle(session_id)
        session = await user.session(session_id)
        assert (session["outcome"], session["steps"]) == ("completed", 4)
        events = await assert_sound(user, session_id)
        assert [event.data["output"] for event in of_type(events, "tool.result")] == ["[no output]", "ran\n"]
    assert await asyncio.to_thread(script.interrupt) == 0
    with pytest.raises(httpx.ConnectError):
        async with Client(url) as user:
            await user.session(session_id)
    assert not any(_runs(pid) for _, pid in nodes.values())


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
