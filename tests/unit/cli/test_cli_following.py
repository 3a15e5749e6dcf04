"""Following a run, and Ctrl-C when the server does not answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator

import pytest

from app.cli.client import Client, ServerEvent, Target
from app.cli.following import CtrlC, show_all, write_json
from app.cli.screen import Screen
from app.cli.view import View
from tests.unit.cli.events import completed, delta, idle


async def _stream(*events: ServerEvent) -> AsyncGenerator[ServerEvent, None]:
    for event in events:
        yield event


async def test_the_last_runs_outcome_counts() -> None:
    shown: list[ServerEvent] = []
    events = [idle("cancelled"), delta("x", 0), idle("completed"), completed("x")]
    assert (await show_all(_stream(*events), shown.append)).outcome == "completed"
    assert shown == events
    assert (await show_all(_stream(), shown.append)).outcome is None


async def test_an_error_while_showing_closes_the_stream() -> None:
    closed = False

    async def stream() -> AsyncGenerator[ServerEvent, None]:
        nonlocal closed
        try:
            yield delta("x", 0)
        finally:
            closed = True

    def unread(_: ServerEvent) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await show_all(stream(), unread)
    assert closed


def test_events_are_written_for_scripts_or_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    write_json(delta("a\x1b", 0))
    line = capsys.readouterr().out
    assert json.loads(line)["data"]["text"] == "a\x1b"
    assert "\x1b" not in line
    View(Screen()).show(delta("a\x1b", 0))
    assert capsys.readouterr().out == r"a\x1b"


async def test_a_cancel_that_does_not_arrive_is_reported() -> None:
    said: list[str] = []
    failed = asyncio.Event()

    def say(text: str) -> None:
        said.append(text)
        if "could not" in text:
            failed.set()

    before = signal.getsignal(signal.SIGINT)
    async with Client(Target("http://127.0.0.1:1")) as client, asyncio.timeout(60):
        with CtrlC(client, "x", say).handled():
            os.kill(os.getpid(), signal.SIGINT)
            await failed.wait()
    assert said[0].startswith("canceling the run; press Ctrl-C again")
    assert said[1].startswith("the run could not be cancelled: No server answers at http://127.0.0.1:1 ")
    assert signal.getsignal(signal.SIGINT) is before
