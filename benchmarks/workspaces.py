"""Snapshots of a workspace with 10,000 files, in moto's S3 server: the first one, one after a change of ten files, one
without a change, and a restoration, against the upload of a plain tar. `python -m benchmarks.workspaces`."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from app.cluster.object_store import open_store
from app.runtime.workspaces.reading import archive, load
from app.runtime.workspaces.store import SessionObjects
from app.runtime.workspaces.taking import Fence, Progress, Snapshot, take
from app.sandbox.base import MovableSandbox, SandboxConfig, SandboxFactory, SandboxLimits
from app.sandbox.docker.factory import DockerFactory
from app.sandbox.host.local import LocalFactory
from tests.s3 import CREDENTIALS, running_s3

FILES, FOLDERS = 10_000, 200
WORDS = [f"word{number}" for number in range(2000)]
# Without a file in the container, since the image may have no Python.
MAKE = """
n=0; while [ $n -lt 200 ]; do mkdir folder$n; n=$((n + 1)); done
awk 'BEGIN { srand(1); for (n = 0; n < 10000; n++) { file = "folder" (n % 200) "/file" n ".py"
words = 50 + rand() * 1250; for (w = 0; w < words; w++) printf "word%d ", rand() * 2000 >file; close(file) } }'
"""


def fill(factor: random.Random, place: Path) -> None:
    """Source files of 5 KB on average."""
    for number in range(FILES):
        path = place / f"folder{number % FOLDERS}" / f"file{number}.py"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(" ".join(factor.choices(WORDS, k=factor.randrange(50, 1300))))


async def measured(name: str, work: Callable[[], Awaitable[object]], stored: Callable[[], float]) -> float:
    before, begun, cpu = stored(), time.perf_counter(), time.process_time()
    await work()
    took = time.perf_counter() - begun
    print(
        f"{name:34} {took * 1000:8.0f} ms   CPU {(time.process_time() - cpu) * 1000:6.0f} ms"
        f"   {(stored() - before) / 1e6:8.3f} MB stored"
    )
    return took


class Counted:
    """Counts what is stored."""

    def __init__(self, store: object) -> None:
        self._store = store
        self.bytes = 0.0

    async def put(self, key: str, data: bytes) -> None:
        self.bytes += len(data)
        await self._store.put(key, data)  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


class Bench:
    """One sandbox and its snapshots."""

    def __init__(self, factory: SandboxFactory, store: Counted) -> None:
        self.factory = factory
        self.store = store
        self.sandbox = self._open("source")
        self.objects = SessionObjects(store, factory.kind, "source")  # type: ignore[arg-type]
        self.newest = Snapshot()
        self.read_s = 0.0

    def _open(self, name: str) -> MovableSandbox:
        image = os.environ.get("PALIMPSEST_TEST_IMAGE", "palimpsest/test-busybox:latest")
        sandbox = self.factory.open(SandboxConfig(name, image, False, SandboxLimits()))
        assert isinstance(sandbox, MovableSandbox)
        return sandbox

    async def take(self) -> None:
        begun = time.perf_counter()

        def has_read() -> None:
            self.read_s = time.perf_counter() - begun

        fence = Fence(lambda: False, has_read)
        taken = await take(self.objects, self.sandbox, self.newest, Progress(), fence, tenure=1, max_bytes=2**33)
        assert taken is not None
        self.newest = taken

    async def restore(self) -> None:
        assert self.newest.id is not None
        snapshot = await load(self.objects, self.newest.id)
        target = self._open("target")
        await target.restore(archive(self.objects, snapshot.tree, owner=1000))

    async def tar(self) -> None:
        data = b"".join([piece async for piece in self.sandbox.archive()])
        await self.store.put("plain.tar", data)

    async def sh(self, script: str) -> None:
        await self.sandbox.exec(script, timeout_s=600, on_output=lambda *_: None)


async def run(bench: Bench) -> None:
    def stored() -> float:
        return bench.store.bytes

    await measured("plain tar", bench.tar, stored)
    await measured("first snapshot", bench.take, stored)
    print(f"{'  a command waits at most':34} {bench.read_s * 1000:8.0f} ms")
    await bench.sh("sleep 2.1; for n in 1 2 3 4 5 6 7 8 9 10; do echo changed >folder$n/file$n.py; done; sleep 2.1")
    await measured("plain tar again", bench.tar, stored)
    await measured("snapshot after ten changes", bench.take, stored)
    print(f"{'  a command waits at most':34} {bench.read_s * 1000:8.0f} ms")
    await measured("snapshot without changes", bench.take, stored)
    await measured("restoration", bench.restore, stored)


async def main(kinds: list[str]) -> None:
    with running_s3() as server, tempfile.TemporaryDirectory() as folder:
        os.environ.update(CREDENTIALS)
        for kind in kinds:
            store = Counted(open_store(server.url(kind)))
            place = Path(folder) / kind
            factory = DockerFactory("benchmark") if kind == "docker" else LocalFactory(place)
            bench = Bench(factory, store)
            await bench.sandbox.start()
            if kind == "docker":
                await bench.sh(MAKE)
            else:
                await asyncio.to_thread(fill, random.Random(1), place / "workspaces" / "source")
            print(f"{kind}: {FILES:,} files")
            await run(bench)
            await factory.remove_orphans(set())
            await factory.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or ["local-unsafe", "docker"]))
