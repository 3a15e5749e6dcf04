"""A Postgres server for the tests, from Debian's packages: started on first use, thrown away at the end of the run.
`scripts.cluster` keeps one in a folder."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from psycopg import Connection

SHARED = "PALIMPSEST_TEST_POSTGRES"
"""Set by the process that started the server: the directory of its socket. The workers of a run share one server."""

USER = "palimpsest"
ACCOUNT = "postgres"
"""Runs the server, since Postgres refuses to run as root."""

SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "max_connections": "400",
    "autovacuum": "off",
}

KEPT = {name: SETTINGS[name] for name in ("listen_addresses", "max_connections")}
"""The settings of a server whose data are kept."""


def binaries() -> Path | None:
    """The directory of the newest server's programs, None without one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def missing() -> str | None:
    """Why there is no Postgres for the tests, None if there is one."""
    if find_spec("psycopg") is None:
        return "psycopg is not installed"
    return None if binaries() else "there is no Postgres; on Debian: apt-get install postgresql"


_connections: dict[tuple[int, Path], Connection] = {}
"""By the process and the server's folder: a process that is forked has its own."""


@atexit.register
def _close() -> None:
    for connection in _connections.values():
        connection.close()


@dataclass(frozen=True)
class Cluster:
    """A running server. `folder` has its socket."""

    folder: Path

    @property
    def pid(self) -> int:
        """The process whose children are all others of the server."""
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://{USER}@/{database}?host={self.folder}"

    def connect(self, database: str) -> Connection:
        """A connection that commits each statement."""
        from psycopg import connect

        return connect(host=str(self.folder), user=USER, dbname=database, autocommit=True)

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Runs one statement outside of any transaction, in the database that every server has; its rows. The
        connection stays open for the next one: a new one takes longer than most statements."""
        from psycopg import OperationalError

        while True:
            known = _connections.get((os.getpid(), self.folder))
            is_old = known is not None and not known.closed
            if known is None or known.closed:
                known = self.connect("postgres")
            connection = _connections[os.getpid(), self.folder] = known
            try:
                cursor = connection.execute(statement)
                return cursor.fetchall() if cursor.description else []
            except OperationalError:
                connection.close()
                if not is_old:
                    raise

    def create(self, name: str, template: str = "template1") -> None:
        """Creates a database, instead of another one with the same name."""
        from psycopg.errors import DuplicateDatabase

        statement = f'CREATE DATABASE "{name}" TEMPLATE "{template}"'
        try:
            self.run(statement)
        except DuplicateDatabase:
            self.drop(name)
            self.run(statement)

    def drop(self, name: str) -> None:
        self.run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def has(self, name: str) -> bool:
        return bool(self.run(f"SELECT 1 FROM pg_database WHERE datname = '{name}'"))


@contextmanager
def temporary_database(template: str = "template1") -> Iterator[str]:
    """The URL of a database that is removed at the end: without tables, or a copy of another one."""
    name = f"t{uuid4().hex}"
    cluster().create(name, template)
    try:
        yield cluster().url(name)
    finally:
        cluster().drop(name)


@cache
def cluster() -> Cluster:
    """The server of this run, which this process starts unless another one has."""
    folder = os.environ.get(SHARED)
    if folder is None:
        folder = os.environ[SHARED] = str(_server().folder)
    return Cluster(Path(folder))


@cache
def _server() -> Server:
    """Kept to the end of the process, also where it is forked and has no other use for the server."""
    return Server()


class Server:
    """The server as a process of this one. `folder` has its data, its socket and its log. With `durable`, what was
    committed survives `stop`; otherwise the newest commits may be lost with its memory. A `folder` that is given is
    kept, and may have the data of an earlier server."""

    def __init__(self, folder: Path | None = None, *, durable: bool = False) -> None:
        self._settings = SETTINGS | ({"synchronous_commit": "on"} if durable else {}) if folder is None else KEPT
        programs = binaries()
        assert programs is not None, missing()
        self._programs = programs
        self.folder = Path(mkdtemp(prefix="palimpsest-postgres-")) if folder is None else folder
        if os.geteuid() == 0:
            shutil.chown(self.folder, ACCOUNT, ACCOUNT)
        if not (self.folder / "data").exists():
            options = ["-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C.UTF-8", "-N"]
            initdb = _as_account([programs / "initdb", "-D", self.folder / "data", *options])
            subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd="/")
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        if folder is None:
            atexit.register(self.remove)
        self.start()

    def start(self) -> None:
        """Starts it and waits until it answers."""
        settings = [f"-c{name}={value}" for name, value in self._settings.items()]
        settings += [f"-cunix_socket_directories={self.folder}"]
        command = _as_account([self._programs / "postgres", "-D", self.folder / "data", *settings])
        with (self.folder / "log").open("a") as log:
            # Out of reach of a terminal's Ctrl-C: whoever uses it ends first.
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", start_new_session=True)
        self._await()

    def _await(self) -> None:
        from psycopg import OperationalError

        assert self._process is not None
        deadline = time.monotonic() + 60
        while True:
            try:
                Cluster(self.folder).run("SELECT 1")
                return
            except OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise AssertionError((self.folder / "log").read_text()) from None
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Ends it: at once, like a crash, unless the signal is another one."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def remove(self) -> None:
        """Ends it and removes its data. Does nothing in a forked process."""
        if os.getpid() == self._owner:
            self.stop()
            shutil.rmtree(self.folder, ignore_errors=True)


def _as_account(command: Sequence[str | Path]) -> list[str]:
    """The command, which ends with this process."""
    account = [f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--init-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *account, "--pdeathsig=QUIT", *map(str, command)]
