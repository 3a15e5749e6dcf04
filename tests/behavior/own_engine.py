"""A separate Docker Engine that a test may stop and start without affecting the machine's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

TIMEOUT_S = 60.0


def why_not() -> str | None:
    """Why none can run here; None if it can."""
    if os.geteuid() != 0:
        return "an Engine of the test's own needs root"
    return None if shutil.which("dockerd") and shutil.which("docker") else "dockerd is not installed"


class OwnEngine:
    """`dockerd` that shares nothing with another one: no bridge, no firewall rules, its own containerd. Its directory
    has a short name, since a socket's path is limited to about a hundred characters."""

    def __init__(self, image: str) -> None:
        self._image = image
        self._folder = Path(tempfile.mkdtemp(prefix="engine-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        return f"unix://{self._folder / 'docker.sock'}"

    def __enter__(self) -> Self:
        self.start()
        saved = self._folder / "image.tar"
        subprocess.run(["docker", "save", "--output", str(saved), self._image], check=True, capture_output=True)
        self._docker("load", "--input", str(saved))
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if self._process is None:
                self.start()
            left = self._docker("ps", "--all", "--quiet").split()
            if left:
                self._docker("rm", "--force", *left)
            self.stop(signal.SIGTERM)
        finally:
            self._remove()

    def start(self) -> None:
        """Starts it, and returns when it answers."""
        command = ["dockerd", "--host", self.host, "--pidfile", str(self._folder / "pid")]
        command += ["--data-root", str(self._folder / "data"), "--exec-root", str(self._folder / "exec")]
        command += ["--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + TIMEOUT_S
        while not self._answers():
            assert self._process.poll() is None, self._end_of_log()
            assert time.monotonic() < deadline, self._end_of_log()
            time.sleep(0.05)

    def stop(self, how: signal.Signals) -> None:
        """Ends it: SIGTERM also ends its containers, as when a service is stopped; SIGKILL leaves them running, and the
        next start ends them."""
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(how)
        process.wait(TIMEOUT_S)
        (self._folder / "pid").unlink(missing_ok=True)

    def _answers(self) -> bool:
        command = ["docker", "--host", self.host, "version"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _docker(self, *arguments: str) -> str:
        command = ["docker", "--host", self.host, *arguments]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout

    def _end_of_log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-2000:]

    def _remove(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(TIMEOUT_S)
        mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for path in sorted((path for path in mounted if path.startswith(f"{self._folder}/")), reverse=True):
            subprocess.run(["umount", "--lazy", path], capture_output=True, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)
