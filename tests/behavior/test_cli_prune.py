"""`palimpsest prune` in front of a person."""

from __future__ import annotations

import asyncio
import os
import pty
import sys

import pytest

from tests.behavior.harness import Client
from tests.behavior.process import ROOT
from tests.behavior.test_cli import WAIT_S, Terminal, at_server, terminal
from tests.behavior.test_cli_approvals import Screen

pytestmark = pytest.mark.shared_server

__all__ = ["at_server", "terminal"]


@pytest.mark.parametrize(("typed", "status", "left"), [("y", 0, 0), ("n", 1, 2)])
async def test_a_person_is_asked_before_sessions_are_deleted(
    at_server: Terminal, client: Client, typed: str, status: int, left: int
) -> None:
    for title in ("one", "two"):
        await client.create(title=title)
    leader, follower = pty.openpty()
    screen = Screen(leader)
    screen.watch()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app", "prune", "--older-than", "0"),
        stdin=follower,
        stdout=follower,
        stderr=follower,
        cwd=at_server.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **at_server.env, "NO_COLOR": "1"},
    )
    os.close(follower)
    try:
        await screen.says("Delete 2 sessions with their history and files?")
        screen.type(typed)
        async with asyncio.timeout(WAIT_S):
            ended = await process.wait()
    finally:
        asyncio.get_running_loop().remove_reader(leader)
        os.close(leader)
    assert len((await client.get("/v1/sessions"))["items"]) == left
    assert ended == status
