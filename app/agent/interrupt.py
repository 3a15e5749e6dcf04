"""The only way to end a step from outside: by a user's cancel, an interrupting message, a limit or a shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

T = TypeVar("T")

StopReason = Literal["interrupt", "limit", "cancel", "shutdown"]

INSIST_S = 0.25
"""Seconds that cancelled work may continue before it is cancelled again."""

_RANK: dict[StopReason, int] = {"interrupt": 0, "limit": 1, "cancel": 2, "shutdown": 3}


class Stopped(Exception):
    """The guarded work was ended and has cleaned up; the interrupt's `reason` says why."""


class Interrupt:
    """Guards the parts of a step that may be ended, and ends the running one when it is fired.

    The work runs in its own task, so that it is cancelled only once and may await during cleanup.
    """

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.stopped_by: StopReason | None = None
        """What ended the last guarded work; a stronger reason may have come while that cleaned up."""
        self._task: asyncio.Task[Any] | None = None
        self._insists = False
        self._patient = False
        self._ends_after_step = False

    @property
    def ends_run(self) -> bool:
        """Whether the whole run should end, not just the step."""
        return self.reason is not None and self.reason != "interrupt"

    def end_after_step(self) -> None:
        """Ends the run like a shutdown once the current step has ended, unless it is cancelled by then."""
        self._ends_after_step = True

    def step_ended(self) -> None:
        """Nothing is running now; what was to end after the step ends."""
        if self._ends_after_step and self.reason != "cancel":
            self.fire("shutdown")

    def fire(self, reason: StopReason) -> None:
        """Ends the running work and keeps more from starting; a stronger reason replaces a weaker one."""
        if self.reason is None or _RANK[reason] > _RANK[self.reason]:
            self.reason = reason
        if self._task is not None and not (self._patient and reason == "interrupt"):
            self.stopped_by = reason
            self._cancel(self._task, self._insists)
            self._task = None

    def _cancel(self, task: asyncio.Task[Any], insists: bool) -> None:
        if task.done():
            return
        task.cancel()
        if insists:
            asyncio.get_running_loop().call_later(INSIST_S, self._cancel, task, True)

    def clear(self) -> None:
        """Forgets an interrupting message, because it was delivered."""
        if self.reason == "interrupt":
            self.reason = None

    def lift(self) -> None:
        """Forgets a limit, because it no longer applies."""
        if self.reason == "limit":
            self.reason = None

    def begin_run(self) -> None:
        """Forgets what ended the previous run, except for a shutdown."""
        if self.reason != "shutdown":
            self.reason = None

    async def guard(self, work: Coroutine[Any, Any, T], *, insist: bool = False, patient: bool = False) -> T:
        """Awaits the work. Raises `Stopped` if it is ended, or was ended before it began; the work has finished then.
        With `insist` it is cancelled repeatedly until it ends: for work that needs no time to clean up and whose
        libraries may lose a cancellation, as HTTP clients do while they connect. `patient` work is not ended by an
        interrupting message, which waits for it."""
        if self.reason is not None and not (patient and self.reason == "interrupt"):
            work.close()
            self.stopped_by = self.reason
            raise Stopped
        task: asyncio.Task[T] = asyncio.create_task(work)
        self._task, self._insists, self._patient, self.stopped_by = task, insist, patient, None
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise
        finally:
            self._task = None
        if task.cancelled():
            raise Stopped
        try:
            return task.result()
        finally:
            # An error's traceback has this frame, which would have the task, which has the error: a cycle that keeps
            # all that the work used until garbage is collected.
            del task

    async def unless_stopped(
        self, work: Coroutine[Any, Any, T], *, insist: bool = False, patient: bool = False
    ) -> T | None:
        """Like `guard`, but returns None if the work is ended, or was before it began."""
        try:
            return await self.guard(work, insist=insist, patient=patient)
        except Stopped:
            return None
