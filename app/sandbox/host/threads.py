"""Thread pools for workspace files in which no session can starve another.

Python's own thread pool is first come, first served: a few listings of huge directories would occupy all of it, and
every other file access, name lookup and thread call of the server would wait for them.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
BULK, MAX_BULK = "files-bulk", 8
"""The pool for what may take minutes, and its maximum number of threads, each of which stays once started."""


class Lane:
    """Runs blocking calls in at most `workers` threads, at most `per_session` of them for one session. Waiting sessions
    take turns, no matter how many calls each has waiting."""

    def __init__(self, name: str, workers: int, per_session: int) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=name)
        self._free = workers
        self._per_session = per_session
        self._running: Counter[str] = Counter()
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}

    async def run(self, session_id: str, call: Callable[[], T]) -> T:
        """Runs the call when it is the session's turn and returns its result. A call that has started keeps its thread
        until it ends, even if the caller is cancelled."""
        await self._turn(session_id)
        work = asyncio.get_running_loop().run_in_executor(self._pool, call)
        work.add_done_callback(lambda done: self._ended(session_id, done))
        return await asyncio.shield(work)

    async def _turn(self, session_id: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(session_id, deque()).append(turn)
        self._start_next()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The turn came at the same moment and cannot be used any more.
                self._give_back(session_id)
            raise

    def _ended(self, session_id: str, work: asyncio.Future[T]) -> None:
        if not work.cancelled():
            work.exception()  # the caller may be gone, and an unretrieved exception is logged
        self._give_back(session_id)

    def _give_back(self, session_id: str) -> None:
        self._free += 1
        self._running[session_id] -= 1
        if not self._running[session_id]:
            del self._running[session_id]
        self._start_next()

    def _start_next(self) -> None:
        """Gives free threads to the waiting sessions; each goes to the end of the queue after its turn."""
        for session_id in list(self._lines):
            while self._free and self._running[session_id] < self._per_session and self._take_turn(session_id):
                pass
            if not self._free:
                return

    def _take_turn(self, session_id: str) -> bool:
        """Starts the session's next call; False if it has none."""
        line = self._lines.get(session_id, deque())
        while line and line[0].done():
            line.popleft()  # cancelled
        if not line:
            self._lines.pop(session_id, None)
            return False
        self._free -= 1
        self._running[session_id] += 1
        line.popleft().set_result(None)
        del self._lines[session_id]
        if line:
            self._lines[session_id] = line
        return True


class FileThreads:
    """The lanes of one kind of sandbox, by duration of calls: microseconds to open, read or write a file, up to seconds
    to list a directory or archive a part, up to minutes to copy or delete a workspace."""

    def __init__(self) -> None:
        self.quick = Lane("files-quick", workers=8, per_session=2)
        # Walks use the CPU, and such threads alternate with the event loop in slices of 5 ms.
        self.walks = Lane("files-walk", workers=4, per_session=1)
        self.bulk = Lane(BULK, MAX_BULK, per_session=1)
