"""Runs the tests in processes that are forked after all tests are collected. Imports and collection take more CPU time
than a thousand unit tests; with forks they are paid once instead of by each worker.

`--workers 4` starts four. They take the tests from a queue, a few of one file at a time, and send their reports to the
first process, which shows them. With `--cov`, the tests marked `measured` come first; those without the mark have new
workers, which are not slowed down by measuring.
"""

from __future__ import annotations

import atexit
import os
import signal
import struct
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest
from _pytest.capture import CaptureManager
from _pytest.terminal import TerminalReporter
from coverage import Coverage

from tests.behavior.preloaded import ENVIRONMENT, MEASURE

SHARE = 6
"""Tests of one file that a worker takes at once: few, so that no worker has many left at the end."""
CLUSTER = Path(__file__).parent / "cluster"
"""Its tests share Temporal, which takes seconds to start."""
RANGE = struct.Struct("HH")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, help="processes that run the tests; 0 runs them in this one")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.workers and not config.option.collectonly:
        config.pluginmanager.register(Workers(config), "workers")


@dataclass(frozen=True)
class Batch:
    """Tests for workers that are measured, or for others. `queue` is a pipe with the ranges of `items` that workers
    take, one at each read."""

    items: list[pytest.Item]
    is_measured: bool
    queue: int

    @classmethod
    def of(cls, items: list[pytest.Item], is_measured: bool) -> Batch:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)  # fails instead of waiting if they do not fit into the pipe
        os.write(writer, b"".join(RANGE.pack(*share) for share in shares(items)))
        os.close(writer)
        return cls(items, is_measured, reader)

    def take(self) -> Iterator[pytest.Item]:
        """The tests that this process takes."""
        while share := os.read(self.queue, RANGE.size):
            start, end = RANGE.unpack(share)
            yield from self.items[start:end]


def batches(items: list[pytest.Item]) -> list[Batch]:
    """All tests, first those that are measured if this run measures coverage."""
    if Coverage.current() is None:
        return [Batch.of(items, False)]
    measured = [item for item in items if item.get_closest_marker("measured")]
    others = [item for item in items if not item.get_closest_marker("measured")]
    return [Batch.of(measured, True), Batch.of(others, False)]


def longest_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests in an order in which no worker is left with a long share at the end."""

    def rank(item: pytest.Item) -> tuple[bool, bool, bool]:
        slow, together, place = _group(item)
        return not slow, not together, place == CLUSTER

    return sorted(items, key=rank)


def shares(items: list[pytest.Item]) -> Iterator[tuple[int, int]]:
    """The tests as ranges: those with a common setup together, slow ones alone, and others with their neighbors of the
    same file."""
    start = 0
    for (slow, together, _), tests in groupby(items, _group):
        end = start + len([*tests])
        size = end - start if together else 1 if slow else SHARE
        yield from ((first, min(first + size, end)) for first in range(start, end, size))
        start = end


def _group(item: pytest.Item) -> tuple[bool, bool, Path]:
    """Whether the test is slow, whether it shares what takes seconds to set up (a fixture of its module, or the servers
    of a cluster), and with the tests of which place."""
    slow = item.get_closest_marker("slow") is not None
    if item.path.is_relative_to(CLUSTER):
        return slow, True, CLUSTER
    known = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    module = item.nodeid.partition("::")[0]
    together = any(found.scope == "module" and found.baseid == module for several in known for found in several)
    return slow, together, item.path


@dataclass
class Worker:
    """A process that runs tests of the first batch, after which another one runs those of the next. `running` is the
    newest test that it has begun."""

    pid: int
    batches: list[Batch]
    running: pytest.Item | None = None


class Workers:
    """The first process: it starts the others and passes their reports on."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._workers: dict[Connection, Worker] = {}
        self._begun: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Runs all tests. Raises what the loop of one process does."""
        if session.testsfailed:
            return None  # while collecting: that loop reports it
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(reporter, TerminalReporter)
        reporter.showfspath = False  # the files take turns
        # Where each worker makes the directories of its tests.
        self._config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        items = longest_first(session.items)
        try:
            # More than once only if a worker dies, with tests that it has taken and not run.
            while left := [item for item in items if item.nodeid not in self._begun]:
                self._run(session, batches(left))
        finally:
            for worker in self._workers.values():
                os.kill(worker.pid, signal.SIGINT)
            for worker in self._workers.values():
                os.waitpid(worker.pid, 0)
        return True

    def _run(self, session: pytest.Session, todo: list[Batch]) -> None:
        """Runs tests until no worker is left."""
        for _ in range(self._config.option.workers):
            self._start(session, todo)
        while self._workers:
            for connection in wait([*self._workers]):
                assert isinstance(connection, Connection)
                self._receive(session, connection)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
        for batch in todo:
            os.close(batch.queue)

    def _start(self, session: pytest.Session, todo: list[Batch]) -> None:
        ours, theirs = Pipe(duplex=False)
        if (pid := os.fork()) == 0:
            _run_worker(session, todo[0], theirs)
        theirs.close()
        self._workers[ours] = Worker(pid, todo)

    def _receive(self, session: pytest.Session, connection: Connection) -> None:
        """Handles what a worker sends, the number of a test that begins or a report, and its end."""
        message = None
        with suppress(EOFError):
            message = connection.recv()
        if message is None:
            # Not while the error is handled: a worker that is forked there would have it in each of its tracebacks.
            connection.close()
            worker = self._workers.pop(connection)
            self._end(worker)
            if later := worker.batches[1:]:
                self._start(session, later)
        elif isinstance(message, int):
            worker = self._workers[connection]
            worker.running = worker.batches[0].items[message]
            self._begun.add(worker.running.nodeid)
        else:
            self._report(message)

    def _report(self, data: dict[str, Any]) -> None:
        report = self._config.hook.pytest_report_from_serializable(config=self._config, data=data)
        self._config.hook.pytest_runtest_logreport(report=report)
        if report.when == "teardown":
            self._config.hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)

    def _end(self, worker: Worker) -> None:
        """Reports the test as failed in which a worker died. Raises `RuntimeError` if it was in none."""
        _, status = os.waitpid(worker.pid, 0)
        if status == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        if worker.running is None:
            raise RuntimeError(f"a worker ended with {code} before its first test")
        report = pytest.TestReport(
            nodeid=worker.running.nodeid,
            location=worker.running.location,
            keywords={},
            outcome="failed",
            longrepr=f"The worker ended with {code} while it ran this test or cleaned up after it.",
            when="call",
        )
        self._config.hook.pytest_runtest_logreport(report=report)


def _run_worker(session: pytest.Session, batch: Batch, reports: Connection) -> None:
    """Runs tests in a new process, and ends it."""
    atexit._clear()  # what is registered belongs to the first process
    code = 1
    try:
        if not batch.is_measured:
            _stop_measuring()
        _become_worker(session.config, reports)
        _run_tests(session, batch, reports)
        code = 0
    except KeyboardInterrupt:
        session._setupstate.teardown_exact(None)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        os._exit(code)


def _run_tests(session: pytest.Session, batch: Batch, reports: Connection) -> None:
    numbers = {item: number for number, item in enumerate(batch.items)}
    tests = batch.take()
    item = next(tests, None)
    while item is not None:
        following = next(tests, None)
        reports.send(numbers[item])
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following


def _stop_measuring() -> None:
    """Neither this process nor those that it starts are measured."""
    if (coverage := Coverage.current()) is not None:
        coverage.stop()
    os.environ.pop(MEASURE, None)
    ENVIRONMENT.pop(MEASURE, None)


def _become_worker(config: pytest.Config, reports: Connection) -> None:
    """Sends reports instead of showing them, and captures output into this process's own files."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
    manager = config.pluginmanager
    manager.unregister(name="workers")
    config.get_terminal_writer()._file = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    capture = manager.get_plugin("capturemanager")
    assert isinstance(capture, CaptureManager)
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    manager.register(_Sender(config, reports))


class _Sender:
    """Sends the reports of a worker."""

    def __init__(self, config: pytest.Config, reports: Connection) -> None:
        self._config = config
        self._reports = reports

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.send(data)
