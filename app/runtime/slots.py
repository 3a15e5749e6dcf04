"""A number of places that are taken and given back; who comes when all are taken waits, in order of coming."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Slots:
    """`make_room` is called when somebody begins to wait, to free a place that is held for no good reason."""

    def __init__(self, most: int, make_room: Callable[[], None] = lambda: None) -> None:
        self.most = most
        self.taken = 0
        self.refused = 0
        self._make_room = make_room
        self._line: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """How many wait. May be asked from any thread."""
        return len(self._line)

    def force(self) -> None:
        """Takes a place for what is there already, even beyond the bound."""
        self.taken += 1

    async def take(self, wait_s: float) -> None:
        """Takes a place. Raises `TimeoutError` where none gets free within `wait_s` seconds."""
        if self.taken < self.most and not self._line:
            self.taken += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(place)
        self._make_room()
        try:
            async with asyncio.timeout(wait_s):
                await place
        except BaseException as error:
            self.refused += isinstance(error, TimeoutError)
            if place.done() and not place.cancelled():
                # It was given in the same moment, and nobody is here to use it.
                self.give_back()
            elif place in self._line:
                # Else it was passed over already, by somebody who gave a place back in the same moment.
                self._line.remove(place)
            raise

    def give_back(self) -> None:
        """Frees a place, which goes to who waits longest."""
        self.taken -= 1
        while self._line and self.taken < self.most:
            place = self._line.popleft()
            if not place.done():
                self.taken += 1
                place.set_result(None)
