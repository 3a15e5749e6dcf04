"""A large workspace: how long other requests wait while a client creates, lists, downloads, compares and copies it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tarfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from http.client import HTTPConnection
from io import BytesIO
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from benchmarks.http import Connection, StreamReader
from benchmarks.observation import ask_while
from benchmarks.processes import PROVIDER, Bench, Server, start_service
from benchmarks.report import Result, cells
from benchmarks.stats import percentile
from benchmarks.steps import GOALS_MS, IMAGE

MIB = 1024 * 1024
FILE_BYTES = 10 * 1024
"""A whole number of a tar's blocks, so that 99,000 files fit in the largest archive, of 1 GiB."""
FOLDER_FILES = 100
PERIOD_S = 0.002
REST_S = 3.0
KEPT_BYTES = 16 * MIB
ATTEMPTS = 20
"""Requests for the `changes` of a workspace that cannot be read within the time of one."""
GOAL_MS = 20
MODEL = "echo-workspace"
T = TypeVar("T")
_BOUNDARY = "palimpsest-bench"


async def measure_workspace(bench: Bench, *, files: int, in_one_folder: int) -> list[Result]:
    """The longest response time of `GET /healthz`, asked every 2 ms, while one client works on a workspace of that
    many files of 10 KiB, in each sandbox that this machine has. `in_one_folder` of them are in one folder, the others
    in folders of 100."""
    results: list[Result] = []
    sizes = [in_one_folder, *(FOLDER_FILES for _ in range(in_one_folder, files, FOLDER_FILES))]
    with TemporaryDirectory(prefix="palimpsest-bench-") as folder:
        whole, changed = Path(folder, "whole.tar"), Path(folder, "changed.tar")
        await asyncio.to_thread(pack, whole, sizes)
        await asyncio.to_thread(pack, changed, sizes[:1])
        for kind in GOALS_MS:
            settings = {"PALIMPSEST_SANDBOX": kind, "PALIMPSEST_SANDBOX_IMAGE": IMAGE}
            async with start_service(bench.source, settings=settings) as server:
                client = _Client(server.port)
                try:
                    await asyncio.to_thread(client.try_sandbox)
                except RuntimeError as error:
                    print(f"no {kind}: {error}", file=sys.stderr)
                    continue
                with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                    work = _Work(replace(bench, service=server), client, pool)
                    try:
                        async for name, times in work.run(sizes, whole, changed):
                            results.append(_result(f"{name}, {kind}", times))
                            print(f"  {' '.join(cells(results[-1])[:2])}", file=sys.stderr, flush=True)
                    except RuntimeError as error:
                        # What was measured before is worth minutes.
                        print(f"{kind} ended early: {error}", file=sys.stderr, flush=True)
    return results


@dataclass(frozen=True, slots=True)
class _Work:
    """What the client does, in another process: a body of a gigabyte would delay the requests that are measured."""

    bench: Bench
    client: _Client
    pool: ProcessPoolExecutor

    async def run(self, sizes: Sequence[int], whole: Path, changed: Path) -> AsyncIterator[tuple[str, list[float]]]:
        """What is done, and the response times of `GET /healthz` meanwhile."""
        client, during, sessions = self.client, self._during, self.client.sessions
        try:
            yield "a session's creation with an archive", await during(client.create, whole)
            yield "nothing else", await during(time.sleep, REST_S)
            yield "listings of its folders", await during(client.list, len(sizes))
            yield "a download of its archive", await during(client.download)
            yield "an upload over its files", await during(client.upload, whole)
            yield "its first `changes`", await during(client.changes, 0)
            yield "a run with a command", (await _measured(self.bench.service, _run(self.bench, sessions[0])))[0]
            await asyncio.to_thread(client.upload, changed)
            yield "`changes` after the upload of a folder", await during(client.changes, sizes[0])
            yield "a fork", await during(client.fork)
        finally:
            # The server is killed, which would leave containers.
            deletion = await during(client.delete)
        yield "the deletion of both", deletion

    async def _during(self, call: Callable[..., object], *arguments: object) -> list[float]:
        working = asyncio.get_running_loop().run_in_executor(self.pool, call, *arguments)
        times, made = await _measured(self.bench.service, working)
        if isinstance(made, str):
            self.client.sessions.append(made)
        return times


def _result(work: str, times: list[float]) -> Result:
    return Result(
        f"`GET /healthz` during {work}, max",
        max(times),
        "ms",
        GOAL_MS,
        against=percentile(times, 0.99),
        against_what="p99",
        note=f"{len(times):,} requests.",
    )


async def _measured(server: Server, work: Awaitable[T]) -> tuple[list[float], T]:
    """The response times of `GET /healthz` in ms, until the work is done, and its result."""
    times: list[float] = []
    working = asyncio.ensure_future(work)
    await ask_while(lambda: not working.done(), server, "/healthz", PERIOD_S, times)
    return times, await working


async def _run(bench: Bench, session: str) -> None:
    async with Connection(bench.source.port) as model, Connection(bench.service.port) as connection:
        await model.ask("PUT", f"/plan/{MODEL}/1/100")
        reader = await StreamReader.open(bench.service.port, f"/v1/sessions/{session}/events")
        await connection.ask("POST", f"/v1/sessions/{session}/queue", {"content": "go"})
        await reader.until_idle()
    reader.close()


def pack(archive: Path, sizes: Sequence[int]) -> None:
    """Makes a tar of a folder for each number of files, with new contents that can be compressed to half."""
    text = os.urandom(MIB // 2).hex().encode()
    with tarfile.open(archive, "w") as tar:
        for folder, size in enumerate(sizes):
            for place in range(size):
                info = tarfile.TarInfo(f"folder-{folder}/file-{place}.txt")
                info.size, start = FILE_BYTES, (folder * 7_919 + place * 104_729) % (len(text) - FILE_BYTES)
                tar.addfile(info, BytesIO(text[start : start + FILE_BYTES]))
                # It would keep all of them.
                tar.members.clear()  # type: ignore[attr-defined]  # not in its published types


@dataclass(frozen=True, slots=True)
class _Client:
    """The requests of a client. They block, and raise `RuntimeError` for an error status."""

    port: int
    sessions: list[str] = field(default_factory=list)

    def _request(self, method: str, path: str, body: Iterable[bytes] = (), kind: str = "application/json") -> bytes:
        """The response's body, of which only the first `KEPT_BYTES` are kept."""
        connection = HTTPConnection("127.0.0.1", self.port)
        connection.request(method, f"/v1/sessions{path}", iter(body) if body else None, {"Content-Type": kind})
        response = connection.getresponse()
        document = response.read(KEPT_BYTES)
        while response.read(MIB):
            pass
        connection.close()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {document.decode()}")
        return document

    def try_sandbox(self) -> None:
        """Uses the server's sandbox for a moment."""
        body = json.dumps({"model": f"{PROVIDER}/{MODEL}"}).encode()
        session = json.loads(self._request("POST", "", [body]))["id"]
        try:
            self._request("PUT", f"/{session}/files/file", [b"content"], "application/octet-stream")
        finally:
            self._request("DELETE", f"/{session}")

    def create(self, archive: Path) -> str:
        part = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n'
        begin = part % ("session", "") + json.dumps({"model": f"{PROVIDER}/{MODEL}"}) + "\r\n"
        begin += part % ("archive", '; filename="workspace.tar"')
        body = chain([begin.encode()], _pieces(archive), [f"\r\n--{_BOUNDARY}--\r\n".encode()])
        answer = self._request("POST", "", body, f"multipart/form-data; boundary={_BOUNDARY}")
        return str(json.loads(answer)["id"])

    def list(self, folders: int) -> None:
        for folder in range(folders):
            self._request("GET", f"/{self.sessions[0]}/files?path=folder-{folder}")

    def download(self) -> None:
        self._request("GET", f"/{self.sessions[0]}/archive")

    def upload(self, archive: Path) -> None:
        self._request("PUT", f"/{self.sessions[0]}/archive", _pieces(archive))

    def changes(self, files: int) -> None:
        """Asks until the server has read all. Raises `AssertionError` if not that many files have changed."""
        for attempt in range(ATTEMPTS):
            try:
                found = json.loads(self._request("GET", f"/{self.sessions[0]}/changes"))
                break
            except RuntimeError as error:
                if "checkpoint_failed" not in str(error) or attempt == ATTEMPTS - 1:
                    raise
        assert len(found["items"]) == files, f"{len(found['items'])} files have changed, not {files}"

    def fork(self) -> str:
        return str(json.loads(self._request("POST", f"/{self.sessions[0]}/fork", [b"{}"]))["id"])

    def delete(self) -> None:
        for session in self.sessions:
            self._request("DELETE", f"/{session}")


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(partial(file.read, MIB), b"")
