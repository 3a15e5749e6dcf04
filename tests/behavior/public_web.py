"""A web on public addresses that exists only on this machine: a network namespace behind a pair of interfaces.

The server under test runs normally, except that its mount namespace has a different `/etc/resolv.conf`.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pip
import pytest

from tests.behavior import web_server
from tests.requirements import required

WORD = "from-the-allowed-host"
"""Content of the package and the repository."""


def need_network_namespaces() -> None:
    """Skips the test if no web can be created, or fails it if CI requires it."""
    tools = [tool for tool in ("ip", "unshare", "openssl", "git") if shutil.which(tool) is None]
    if os.geteuid() == 0 and not tools:
        return
    reason = f"the test's web needs root and ip, unshare, openssl, git; missing: {tools or 'root'}"
    if "bubblewrap" in required():
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass(frozen=True)
class PublicWeb:
    """`address` is the web's, `server` is a public address of this machine."""

    address: str
    server: str
    directory: Path

    @property
    def wrapper(self) -> Sequence[str]:
        """The command prefix for a program that resolves names through the web."""
        bind = f'mount --bind {self.directory}/resolv.conf /etc/resolv.conf && exec "$@"'
        return ("unshare", "--mount", "--propagation", "private", "sh", "-c", bind, "sh")

    def asked(self, kind: str) -> list[Any]:
        """The web's requests over `dns`, `http` or `tls`."""
        entries = [json.loads(line) for line in (self.directory / "log").read_text().splitlines()]
        return [entry[1:] if len(entry) > 2 else entry[1] for entry in entries if entry[0] == kind]


@contextmanager
def public_web(directory: Path) -> Iterator[PublicWeb]:
    """Creates the web and removes it again."""
    number, name = os.getpid() % 250 + 2, f"pw{secrets.token_hex(4)}"
    web = PublicWeb(f"93.184.216.{number}", f"93.184.217.{number}", directory)
    _fill(web)
    _ip("netns", "add", name)
    try:
        _ip("link", "add", name, "type", "veth", "peer", "name", "web", "netns", name)
        _ip("addr", "add", f"{web.server}/32", "dev", name)
        _ip("link", "set", name, "up")
        _ip("route", "add", f"{web.address}/32", "dev", name, "src", web.server)
        _ip("-n", name, "addr", "add", f"{web.address}/32", "dev", "web")
        _ip("-n", name, "link", "set", "web", "up")
        _ip("-n", name, "route", "add", f"{web.server}/32", "dev", "web")
        argv = [sys.executable, web_server.__file__, web.address, web.server, str(directory)]
        with subprocess.Popen(
            ["ip", "netns", "exec", name, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            yield web
            program.terminate()
    finally:
        _ip("netns", "del", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _fill(web: PublicWeb) -> None:
    www = web.directory / "www"
    (www / "simple/demo").mkdir(parents=True)
    (web.directory / "log").touch()
    (web.directory / "resolv.conf").write_text(f"nameserver {web.address}\noptions timeout:1 attempts:1\n")
    (www / "page").write_text("ALLOWED")
    names = ",".join(f"DNS:{name}" for name in web_server.ALLOWED)
    keys = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=test")
    out = ("-keyout", str(web.directory / "key.pem"), "-out", str(www / "ca.pem"))
    _run("openssl", "req", "-x509", *keys, "-addext", f"subjectAltName={names}", *out)
    wheel = "demo-1.0-py3-none-any.whl"
    (www / "simple/demo/index.html").write_text(f'<a href="../../{wheel}">{wheel}</a>')
    info = {"METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n", "RECORD": ""}
    info["WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(www / wheel, "w") as file:
        file.writestr("demo.py", f"WORD = {WORD!r}\n")
        for name, text in info.items():
            file.writestr(f"demo-1.0.dist-info/{name}", text)
    home = Path(pip.__file__).parent
    # Keeps the modification times, without which the compiled modules in it would be of no use.
    shutil.make_archive(str(www / "pip"), "tar", home.parent, home.name)
    work = web.directory / "work"
    _run("git", "init", "--quiet", str(work))
    (work / "README").write_text(WORD)
    _run("git", "-C", str(work), "add", "README")
    author = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    _run("git", *author, "-C", str(work), "commit", "--quiet", "-m", "Begin")
    _run("git", "clone", "--quiet", "--bare", str(work), str(www / "demo.git"))
    _run("git", "-C", str(www / "demo.git"), "update-server-info")


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)
