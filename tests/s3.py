"""An S3 server for the tests: moto's, in a process of its own, which can be stopped and continued."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec

import httpx

BUCKET = "workspaces"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "not-for-anyone"}


def missing() -> str | None:
    """Why there is no S3 server, None if there is one."""
    absent = [name for name in ("obstore", "moto", "flask") if find_spec(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


class S3Server:
    """The server, with an empty bucket."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        argv = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, prefix: str = "some/place") -> str:
        """The setting of a server that uses it."""
        return f"s3://{BUCKET}/{prefix}?endpoint={self.endpoint}"

    def await_ready(self) -> None:
        """Waits until it answers, and makes the bucket."""
        deadline = time.monotonic() + 60
        with httpx.Client(base_url=self.endpoint, trust_env=False, timeout=60) as client:
            while time.monotonic() < deadline:
                with suppress(httpx.TransportError):
                    if client.put(f"/{BUCKET}").status_code == 200:
                        return
                time.sleep(0.05)
        raise AssertionError("moto's server did not start")

    def stored_keys(self) -> list[str]:
        """All keys of the bucket."""
        from obstore.store import S3Store

        store = S3Store(
            BUCKET,
            config={"endpoint": self.endpoint, "region": "us-east-1", "access_key_id": "x", "secret_access_key": "x"},
            client_options={"allow_http": True},
        )
        return [found["path"] for page in store.list() for found in page]

    def stop(self) -> None:
        """Lets it answer no more, with open connections, until `resume`."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)


@contextmanager
def running_s3() -> Iterator[S3Server]:
    server = S3Server()
    try:
        server.await_ready()
        yield server
    finally:
        server.end()
