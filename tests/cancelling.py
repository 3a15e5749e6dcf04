"""Cancels a task wherever its coroutine waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


class CancelledAt(Coroutine[Any, Any, Any]):
    """The coroutine of a task that is cancelled where it waits for the nth time. `reached`: it got there."""

    def __init__(self, nth: int, work: Coroutine[Any, Any, Any]) -> None:
        self._waits = nth
        self._work = work

    @property
    def reached(self) -> bool:
        return self._waits <= 0

    def send(self, value: Any) -> Any:
        return self._waiting(self._work.send(value))

    def throw(self, *error: Any) -> Any:
        return self._waiting(self._work.throw(*error))

    def close(self) -> None:
        self._work.close()

    def _waiting(self, future: Any) -> Any:
        self._waits -= 1
        task = asyncio.current_task()
        if self._waits == 0 and task is not None:
            task.cancel()
        return future

    def __await__(self) -> Generator[Any, Any, Any]:
        raise TypeError("to be run as a task")
