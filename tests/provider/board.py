"""Waiting for something to happen in the provider, from any thread's event loop, without polling."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

Condition: TypeAlias = Callable[["Board"], bool]


@dataclass(frozen=True, slots=True, eq=False)
class Waiter:
    """A waiter whose loop is notified when the condition has become true."""

    condition: Condition
    future: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop

    def tell(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


@dataclass(slots=True)
class Board:
    """The provider's counters. Every change notifies the waiters whose condition it makes true; conditions are checked
    under the lock, so none is missed. The lock is held for microseconds and never across an await."""

    arrived: int = 0
    answered: int = 0
    left: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    opened: set[str] = field(default_factory=set)
    waiters: list[Waiter] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @contextmanager
    def change(self) -> Iterator[Board]:
        with self.lock:
            yield self
            ready = [waiter for waiter in self.waiters if waiter.condition(self)]
            for waiter in ready:
                self.waiters.remove(waiter)
                waiter.tell()

    async def until(self, condition: Condition) -> None:
        """Returns once `condition` has been true."""
        loop = asyncio.get_running_loop()
        with self.lock:
            if condition(self):
                return
            waiter = Waiter(condition, loop.create_future(), loop)
            self.waiters.append(waiter)
        try:
            await waiter.future
        finally:
            with self.lock:
                if waiter in self.waiters:
                    self.waiters.remove(waiter)
