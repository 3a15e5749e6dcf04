"""The contents of many entries of a container: `tar` reads them in it, the Engine the rest."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import NamedTuple

import pytest
import pytest_asyncio

from app.sandbox.base import Sandbox, TreeEntry
from app.sandbox.docker import moving, reading, unpacking
from app.sandbox.docker.container import container_name
from app.sandbox.docker.engine import Engine
from app.sandbox.docker.factory import DockerFactory
from app.sandbox.docker.files import ContainerArchives
from app.sandbox.docker.scripts import run_script
from tests.behavior.test_allowed_hosts import FULL_IMAGE, need_image
from tests.unit.sandbox.shell import IMAGE, Shell, new_config

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker")]
MANY = 50


class Counted(ContainerArchives):
    """Notes what the Engine was asked for."""

    def __init__(self, engine: Engine, container: str) -> None:
        super().__init__(engine, container)
        self.fetched: list[str] = []

    async def fetch(self, path: str) -> AsyncGenerator[bytes, None]:
        self.fetched.append(path)
        async with aclosing(super().fetch(path)) as pieces:
            async for piece in pieces:
                yield piece


class Rig(NamedTuple):
    sandbox: Sandbox
    engine: Engine
    container: str
    archives: Counted

    async def entries(self) -> Sequence[TreeEntry]:
        scan = await moving.scan(self.engine, self.container, 10_000)
        return [entry for entry in scan.entries if entry.type != "directory"]

    async def read(self, entries: Sequence[TreeEntry]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        batches = reading.read_entries(self.engine, self.container, self.archives, entries)
        async with aclosing(batches):
            async for batch in batches:
                for position, data in batch:
                    path = entries[position].path
                    found[path] = found.get(path, b"") + data
        return found


@asynccontextmanager
async def rigged(instance_id: str, image: str = IMAGE) -> AsyncIterator[Rig]:
    factory, engine, config = DockerFactory(instance_id), Engine(), replace(new_config(), image=image)
    sandbox, container = factory.open(config), container_name(config.session_id)
    try:
        await Shell(sandbox).run(f"mkdir -p a/b; for i in $(seq {MANY}); do echo $i >a/b/$i; done")
        yield Rig(sandbox, engine, container, Counted(engine, container))
    finally:
        await sandbox.remove()
        await engine.aclose()
        await factory.aclose()


async def as_root(rig: Rig, command: str) -> None:
    execution = await rig.engine.container(rig.container).exec(["sh", "-c", command], user="root")
    async with execution.start() as stream:
        assert await stream.read_out() is None


@pytest_asyncio.fixture
async def rig(instance_id: str) -> AsyncIterator[Rig]:
    async with rigged(instance_id) as made:
        yield made


async def test_many_entries_are_read_without_all_others(rig: Rig) -> None:
    entries = [entry for entry in await rig.entries() if int(entry.path[4:]) > 5]
    assert await rig.read(entries) == {b"a/b/%d" % number: b"%d\n" % number for number in range(6, MANY + 1)}
    assert rig.archives.fetched == []


async def test_names_links_and_what_tar_cannot_read(rig: Rig) -> None:
    large = b"l" * (reading.BATCH + 1)
    strange, deep = b"-x\n\xff 'y", b"/".join([b"d" * 100] * 3)
    await rig.sandbox.write("large", large)
    await Shell(rig.sandbox).run(
        "printf 1 >\"$(printf -- '-x\\n\\377 \\047y')\"; ln -s a/b/1 link; ln a/b/2 twin; : >empty; echo 2 >closed;"
        f" chmod 0 closed; mkdir -p {deep.decode()}; echo deep >{deep.decode()}/file; echo gone >gone; mkdir z; >z/now"
    )
    entries = await rig.entries()
    await Shell(rig.sandbox).run("rm gone; rm z/now; mkdir z/now")
    found = await rig.read(entries)
    twins = (found.pop(b"a/b/2", None), found.pop(b"twin", None))
    assert sorted(twins, key=bool) == [None, b"2\n"]
    assert found == {
        **{b"a/b/%d" % number: b"%d\n" % number for number in range(1, MANY + 1) if number != 2},
        b"large": large,
        strange: b"1",
        b"link": b"a/b/1",
        b"empty": b"",
        b"closed": b"2\n",
        deep + b"/file": b"deep\n",
    }
    assert sorted(rig.archives.fetched) == [f"/workspace/{name}" for name in ("closed", "gone", "large", "z/now")]


async def test_a_file_that_has_grown_cuts_off_no_other(rig: Rig) -> None:
    entries = await rig.entries()
    await rig.sandbox.write("a/b/1", b"1" * 1_000_000)
    assert (len(await rig.read(entries)), rig.archives.fetched) == (MANY, [])


@pytest.mark.extended
async def test_what_breaks_off_takes_nothing_from_what_comes_next(instance_id: str) -> None:
    """`xargs` starts several `tar`, of which busybox's ends in the middle of a file that shrinks."""
    need_image("docker")
    count = 700  # names for more than 128 KiB of arguments
    async with rigged(instance_id, FULL_IMAGE) as rig:
        await Shell(rig.sandbox).run(
            f"rm -r a; for i in $(seq {count}); do seq $i 1000 | head -c 2000 >{'n' * 240}$i; done"
        )
        await as_root(rig, "cd /usr/bin; mv tar real-tar; echo 'real-tar \"$@\" | head -c 2500' >tar; chmod 755 tar")
        entries = await rig.entries()
        found = await rig.read(entries)
    for path, content in found.items():
        numbers = range(int(path.strip(b"n")), 1001)
        assert content == b"".join(b"%d\n" % number for number in numbers)[:2000]
    assert (len(found), rig.archives.fetched) == (count, ["/workspace/."])


@pytest.mark.extended
async def test_without_tar_in_the_image_the_engine_reads_all(instance_id: str) -> None:
    need_image("docker")
    async with rigged(instance_id, FULL_IMAGE) as rig:
        entries = await rig.entries()
        contents = await rig.read(entries)
        assert (len(contents), rig.archives.fetched) == (MANY, [])
        await as_root(rig, "rm $(command -v tar)")
        assert (await rig.read(entries), rig.archives.fetched) == (contents, ["/workspace/."])


async def test_a_merge_of_many_files_shows_progress(rig: Rig) -> None:
    """Each message restarts the time after which the Engine counts as away."""
    files = 1100
    await Shell(rig.sandbox).run(
        "mkdir -p .s/old .s/new/a/b/1dir a/b/1dir; ln -s a .s/new/l; ln -s a l; echo new >.s/new/a/b/1dir/x;"
        f" for i in $(seq {files}); do echo new >.s/new/a/b/$i; done; rm a/b/3; ln -s 1dir a/b/3"
    )
    code, _, messages = await run_script(rig.engine, rig.container, unpacking._MERGE_SCRIPT, (".s", "."))
    assert (code, messages) == (0, b"\n" * 2)
    found = await rig.read(await rig.entries())
    assert found.pop(b"l") == b"a"
    assert found == {b"a/b/%d" % number: b"new\n" for number in range(1, files + 1)} | {b"a/b/1dir/x": b"new\n"}
