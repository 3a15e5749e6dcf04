"""A Redis server for a test or for `scripts.cluster`, from Debian's package: on a port of its own, without a file,
killed for real."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path


def missing() -> str | None:
    """Why there is no Redis for the tests, None if there is one."""
    if find_spec("redis") is None:
        return "redis is not installed"
    return None if shutil.which("redis-server") else "there is no Redis; on Debian: apt-get install redis-server"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class RedisServer:
    """The server as a process of this one. `options` are further settings."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self._folder, self._options = folder, options
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Starts it and waits until it answers."""
        command = ["setpriv", "--pdeathsig=KILL", "redis-server", "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", str(self._folder), *self._options]
        with (self._folder / "redis.log").open("a") as output:
            # Out of reach of a terminal's Ctrl-C: whoever uses it ends first.
            self._process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        deadline = time.monotonic() + 30
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as client:
                    client.sendall(b"PING\r\n")
                    client.recv(16)
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise AssertionError((self._folder / "redis.log").read_text()) from None
                time.sleep(0.02)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """`kill -9`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None
