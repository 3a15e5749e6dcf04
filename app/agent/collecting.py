"""How a call's output is collected: it arrives in pieces, and the model sees a limited part of it at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from app.sandbox.base import Stream
from app.tools.base import OutputSink
from app.tools.output import OutputLimit


class CollectedOutput(Protocol):
    @property
    def text(self) -> str: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def bytes(self) -> int: ...
    @property
    def ref(self) -> str | None: ...


class Collector(OutputSink, Protocol):
    """Collects one call's output as it arrives, then returns what the model sees and where the rest is."""

    async def finish(self, note: str = "") -> CollectedOutput: ...


CollectorFactory = Callable[[str, Callable[[Stream, str, int], None], OutputLimit], Collector]
"""Makes a call's collector from the call id, a callback for the live preview (stream, text, offset) and a limit."""
