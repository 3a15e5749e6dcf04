"""The API's configuration as plain values, passed in at startup."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from app.api.guard import GuardRules
from app.api.hosts import is_loopback, parse_allowed, parse_host

MIB = 1024 * 1024


def no_metrics() -> bytes:
    """The default without metrics."""
    return b""


@dataclass(frozen=True, slots=True)
class ApiConfig:
    """Sizes are bytes, times are seconds unless the name says otherwise.

    Raises `ValueError` for a non-loopback address without a key, and for an invalid allowed host.
    """

    api_keys: tuple[str, ...] = field(default=(), repr=False)
    allowed_hosts: tuple[str, ...] = ()
    bind_host: str = "127.0.0.1"
    upload_max_bytes: int = 64 * MIB
    max_json_bytes: int = MIB
    max_history_bytes: int = 64 * MIB
    ping_s: float = 5
    """Some proxies close streams that are silent for about 16 s."""
    retry_ms: int = 1000
    metrics: Callable[[], bytes] = no_metrics
    """Returns Prometheus text; called in a thread."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits between the comments of a quiet stream."""

    def __post_init__(self) -> None:
        parse_allowed(self.allowed_hosts)
        if not self.api_keys and not _binds_loopback(self.bind_host):
            raise ValueError(f"without an API key the server listens only on loopback, not on {self.bind_host}")

    @property
    def rules(self) -> GuardRules:
        return GuardRules(
            keys=tuple(key.encode() for key in self.api_keys),
            allowed_hosts=parse_allowed(self.allowed_hosts),
            max_json_bytes=self.max_json_bytes,
            max_history_bytes=max(self.max_history_bytes, self.max_json_bytes),
            max_upload_bytes=self.upload_max_bytes,
        )


def _binds_loopback(bind_host: str) -> bool:
    host = parse_host(f"[{bind_host}]" if ":" in bind_host else bind_host)
    return host is not None and is_loopback(host.name)
