"""Names the test that opened a connection in the warning that it was not closed, which fails a later test: the one in
which it is found as garbage."""

from __future__ import annotations

import os
from asyncio import selector_events
from typing import Any

Transport: Any = selector_events._SelectorTransport  # type: ignore[attr-defined]


def pytest_configure() -> None:
    make, show = Transport.__init__, Transport.__repr__

    def init(self: Any, *args: Any, **more: Any) -> None:
        self.opened_in = os.environ.get("PYTEST_CURRENT_TEST", "no test")
        make(self, *args, **more)

    Transport.__init__ = init
    Transport.__repr__ = lambda self: f"{show(self)} of {self.opened_in}"
