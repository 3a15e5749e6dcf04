"""Snapshots of real sandboxes, by the interface that all kinds have."""

from __future__ import annotations

import asyncio
import uuid
from typing import cast

import pytest

from app.errors import TooLargeError
from app.sandbox.base import MovableSandbox, SandboxFactory
from app.sandbox.docker.moving import parse_scan
from tests.requirements import need
from tests.unit.sandbox.conftest import BUBBLEWRAP, data_dir, factory, instance_id
from tests.unit.sandbox.shell import Shell, new_config
from tests.unit.workspaces.rig import Keeping

__all__ = ["data_dir", "factory", "instance_id"]

DOCKER = pytest.param("docker", marks=pytest.mark.docker)
MAKE = r"""
mkdir -p a/b closed && printf content >a/b/file && ln a/b/file hard && mkfifo fifo
ln -s ../outside a/link && ln -s ../outside up
printf x >"$(printf 'new\nline')" && printf y >"$(printf 'bad-\377')" && printf z >'-rf' && : >empty
chmod 640 a/b/file && chmod 500 closed && i=0 && while [ $i -lt 300 ]; do echo $i >a/$i; i=$((i + 1)); done
"""
LOOK = r"""
find . | sort | od -c | cksum; cat a/b/file hard "$(printf 'new\nline')" "$(printf 'bad-\377')" ./-rf
stat -c '%a %h' a/b/file closed; [ -O hard ] && [ -O a ] && echo own; readlink a/link; readlink up; cat a/299
"""


@pytest.fixture(params=[DOCKER, BUBBLEWRAP])
def kind(request: pytest.FixtureRequest) -> str:
    need(request.param)
    return str(request.param)


def opened(factory: SandboxFactory) -> MovableSandbox:
    sandbox = factory.open(new_config(str(uuid.uuid4())))
    assert isinstance(sandbox, MovableSandbox)
    return sandbox


async def test_what_commands_made_comes_back(factory: SandboxFactory) -> None:
    source, target = opened(factory), opened(factory)
    made = await Shell(source).run(MAKE)
    assert made.code == 0, made.err
    await Shell(source).run("rm fifo")
    keeping = Keeping(source)
    await Shell(source).run("mkfifo fifo")
    await keeping.take()
    await Shell(source).run("rm fifo")
    await Shell(target).run("echo old >old; sleep 100 & sleep 100 &")
    await keeping.restore_to(target)
    before, after = await Shell(source).run(LOOK), await Shell(target).run(LOOK)
    assert before.out
    assert (after.code, after.out, after.err) == (before.code, before.out, before.err)
    writable = await Shell(target).run("echo more >>a/b/file && touch new && rm -r a closed")
    assert (writable.code, writable.err) == (0, "")


@pytest.mark.slow
async def test_few_changes_are_read_alone(factory: SandboxFactory) -> None:
    source, target = opened(factory), opened(factory)
    await Shell(source).run(MAKE + "rm fifo; sleep 2.1")
    keeping = Keeping(source)
    await keeping.take()
    await Shell(source).run("echo changed >a/7; ln -s a/7 to-seven; rm a/8; mkdir d; touch d/e")
    await keeping.take()
    assert 0 < keeping.store.put_bytes < 20_000
    await keeping.restore_to(target)
    found = await Shell(target).run("cat a/7 to-seven; ls a/8; ls d; cat a/9")
    assert found.out.split() == ["changed", "changed", "e", "9"]


async def test_a_tree_that_changes_while_it_is_read(factory: SandboxFactory) -> None:
    source, target = opened(factory), opened(factory)
    busy = r"""i=0; while [ ! -e stop ]; do i=$((i + 1)); mkdir -p d$((i % 7)); echo $i >d$((i % 7))/f
    mv d$((i % 7)) e$i; rm -rf e$((i - 3)); head -c $((i % 5000)) /dev/zero >grows; ln -sf f$i link; done"""
    await source.start()
    running = asyncio.create_task(Shell(source).run(busy))
    keeping = Keeping(source)
    for _ in range(5):
        await keeping.take()
    await source.write("stop", b"")
    await running
    await keeping.take()
    await keeping.restore_to(target)
    listed = "find . | sort; find . -type f -exec cksum {} + | sort"
    assert (await Shell(target).run(listed)).out == (await Shell(source).run(listed)).out


async def test_too_many_files_are_refused(factory: SandboxFactory) -> None:
    sandbox = opened(factory)
    await Shell(sandbox).run("touch a b c d")
    assert len((await sandbox.scan(4)).entries) == 4
    with pytest.raises(TooLargeError) as refused:
        await sandbox.scan(3)
    assert refused.value.code == "workspace_too_large"


def test_times_in_whole_seconds_and_in_nanoseconds_are_read() -> None:
    output = (
        b"100\nM 81a4 3 98 99 7 ./a\nM 81a4 3 98.000000005 99.000000005 7 ./b\n./c\n"
        b"M a1ff 3 98.000000005 99.000000007 8 ./l\nM 81a4 3 cut"
    )
    scan = parse_scan(output, "M", 10)
    assert scan.settled_ns == 99_000_000_000
    assert [(entry.path, entry.mtime_ns, entry.ctime_ns) for entry in scan.entries] == [
        (b"a", 98_000_000_000, 99_000_000_000),
        (b"b\n./c", 98_000_000_005, 99_000_000_005),
        (b"l", 98_000_000_005, 99_000_000_007),
    ]
    assert cast(object, scan.entries[2].type) == "symlink"
