"""Commands in the background of bubblewrap, and those after them: one network, one proxy, one limit of memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from app.sandbox.base import BackgroundInput, ExecResult, Sandbox
from app.sandbox.host.bubblewrap import BubblewrapFactory
from tests.unit.sandbox.shell import Shell, new_config
from tests.unit.sandbox.test_egress_sandboxes import ASK, UNLISTED

pytestmark = [
    pytest.mark.bubblewrap,
    pytest.mark.usefixtures("bubblewrap"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may enter the network of another command"),
]

HOG = "memory = b'x' * (160 << 20); print('full', flush=True); input()"


@asynccontextmanager
async def running(sandbox: Sandbox, command: str) -> AsyncIterator[asyncio.Task[ExecResult]]:
    """A command in the background that has printed something."""
    stdin, printed = BackgroundInput(), asyncio.Event()
    task = asyncio.create_task(sandbox.exec(command, timeout_s=60, on_output=lambda *_: printed.set(), stdin=stdin))
    try:
        async with asyncio.timeout(60):
            await printed.wait()
        assert stdin.begun.is_set()
        assert not stdin.is_alone
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_the_network_is_shared_as_long_as_one_is_in_it(data_dir: Path) -> None:
    factory = BubblewrapFactory(data_dir)
    sandbox = factory.open(replace(new_config(), allowed_hosts=("packages.example.com",)))
    shell, where = Shell(sandbox), "readlink /proc/self/ns/net"
    asked = f"{ASK} ask evil.example.net; {where}"
    try:
        sandbox.keep_ready()
        alone = (await shell.run(where)).out
        async with running(sandbox, f"{where}; sleep 60"):
            found = [await shell.run(asked)]
            async with running(factory.open(sandbox._config), f"{where}; sleep 60") as second:
                found.append(await shell.run(asked))
            assert second.done()
        after = await shell.run(asked)
    finally:
        await sandbox.remove()
    places = [ran.out.splitlines()[-1] for ran in found]
    assert len(set(places)) == 1
    assert places[0] != alone.strip()
    assert sandbox._shared.identity is None, "it ended with the last one in it"
    for ran in (*found, after):
        assert ran.result.refused_hosts == (f"evil.example.net was refused: {UNLISTED}",)


async def test_memory_counts_with_that_of_the_background(data_dir: Path) -> None:
    """The newest command is ended, since those in the background were there first."""
    factory = BubblewrapFactory(data_dir)
    if factory._cgroups is not None:
        pytest.skip("the kernel limits all of them together")
    sandbox = factory.open(new_config())
    try:
        async with running(sandbox, f'python3 -c "{HOG}"') as first:
            ran = await Shell(sandbox).run(f'sleep 20 | python3 -c "{HOG}"')
            assert ran.code is None
            assert "in the background used more than the 256 MiB" in (ran.result.remark or "")
            assert not first.done()
    finally:
        await sandbox.remove()
