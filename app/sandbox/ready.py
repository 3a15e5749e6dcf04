"""The process that a session's next command will run in: it is started while the model is still thinking, and waits
only for the command. Each process runs one command, so it differs from one started for the command only in the time of
its start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import SandboxError
from app.sandbox.base import ExecRequest, ExecResult
from app.sandbox.host.process import Commands, Running, until

MOST_WAITING = 32
"""Processes that wait at the same time, over all sessions of one kind of sandbox: each takes less than 1 MB."""

STEP_END_S = 0.03
"""Seconds from the end of a command until the model has the next request, on a busy machine: starting a process in that
time would delay the request."""

Work = Callable[[asyncio.Future[ExecRequest], Mapping[str, str], asyncio.Event], Coroutine[Any, Any, ExecResult]]
"""Starts a process with these further variables, runs the command in it once that is known, and ends it when the event
is set. Raises `ProcessLostError` if it ended before it got the command."""


async def may_start(request: asyncio.Future[ExecRequest], ending: asyncio.Event) -> bool:
    """Waits until a process may be started: at once if its command is known, else when the step that is ending has
    ended. Returns False if it is no longer needed."""
    await until(ending, request, timeout_s=STEP_END_S)
    return not ending.is_set()


class ProcessLostError(SandboxError):
    """The process ended while it waited."""


@dataclass(slots=True)
class Room:
    """How many processes may wait, and how many do."""

    most: int = MOST_WAITING
    taken: int = 0


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A process for a command. `place` is what it sees as its sandbox."""

    request: asyncio.Future[ExecRequest]
    env: Mapping[str, str]
    place: object
    running: Running[ExecResult]


class ReadyCommands:
    """Runs the commands of one sandbox. Between `keep` and `rest` one process waits for the next command."""

    def __init__(self, commands: Commands, room: Room, place: Callable[[], object] = lambda: None) -> None:
        """A process that waits is only used while `place` returns what it did at its start: a workspace that was
        replaced is another place."""
        self._commands = commands
        self._room = room
        self._place = place
        self._waiting: _Waiting | None = None
        self._keeps = False

    async def run(self, request: ExecRequest, env: Mapping[str, str], work: Work) -> ExecResult:
        """Runs a command, with these further variables. Raises what the work raises."""
        try:
            # One with an input lasts: the one that waits is for the others.
            waiting = self._take(env) if request.stdin is None else None
            if waiting is not None:
                try:
                    return await self._run_in(waiting, request)
                except ProcessLostError:
                    pass  # it was killed, but not by this server
            return await self._run_in(self._begin(env, work), request)
        finally:
            self._prepare(env, work)

    @property
    def has_one(self) -> bool:
        """Whether a process waits that the next command can use, or is about to be started."""
        return self._waiting is not None and self._waiting.place == self._place()

    def keep(self, env: Mapping[str, str], work: Work) -> None:
        """Starts a process for the next command, and one after each command. Does nothing if there are too many."""
        self._keeps = True
        self._prepare(env, work)

    def rest(self) -> None:
        """Ends what waits."""
        self._keeps = False
        if (waiting := self._waiting) is not None:
            self._drop(waiting)
            waiting.running.end()

    def _prepare(self, env: Mapping[str, str], work: Work) -> None:
        if not self._keeps or self._waiting is not None or self._room.taken >= self._room.most:
            return
        self._room.taken += 1
        self._waiting = waiting = self._begin(env, work)
        waiting.running.task.add_done_callback(lambda _: self._drop(waiting))

    def _take(self, env: Mapping[str, str]) -> _Waiting | None:
        """What waits, if it is still as the next command needs it."""
        waiting = self._waiting
        if waiting is None:
            return None
        self._drop(waiting)
        if waiting.env == env and waiting.place == self._place():
            return waiting
        waiting.running.end()
        return None

    def _drop(self, waiting: _Waiting) -> None:
        if self._waiting is waiting:
            self._waiting = None
            self._room.taken -= 1

    def _begin(self, env: Mapping[str, str], work: Work) -> _Waiting:
        request: asyncio.Future[ExecRequest] = asyncio.get_running_loop().create_future()
        running = self._commands.begin(lambda ending: work(request, env, ending))
        return _Waiting(request, dict(env), self._place(), running)

    async def _run_in(self, waiting: _Waiting, request: ExecRequest) -> ExecResult:
        waiting.request.set_result(request)
        return await self._commands.result(waiting.running)
