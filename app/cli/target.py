"""Finds the server for a command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx

from app.cli.client import Target
from app.cli.screen import NoServerError
from app.cli.startup import announced_url, environment, load_settings, loading

if TYPE_CHECKING:
    from app.settings import Settings

PROBE_S = 3.0
"""How long a server on this machine may take to answer the probe, in seconds."""


def given(server: str | None, key: str | None) -> Target | None:
    """The server given by the option or by PALIMPSEST_URL, or None."""
    known = environment()
    url = server or known.get("PALIMPSEST_URL")
    return Target(url, key or first_key(known), has_to_be_named=server is not None) if url else None


def first_key(known: dict[str, str]) -> str | None:
    """PALIMPSEST_API_KEY, else the first of PALIMPSEST_API_KEYS."""
    first, *_ = (known.get("PALIMPSEST_API_KEYS") or "").split(",")
    return known.get("PALIMPSEST_API_KEY") or first.strip() or None


async def local(settings: Settings, key: str | None) -> Target | None:
    """The server with these settings on this machine; None if none answers."""
    for url in (announced_url(settings.data_dir), own_url(settings)):
        if url is not None and await answers(url):
            return Target(url, key or first_key(environment()))
    return None


def own_url(settings: Settings) -> str | None:
    """The local URL of a server with these settings; None if its port is chosen at start."""
    if settings.port == 0:
        return None
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - an address to avoid
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


async def answers(url: str) -> bool:
    """Whether a Palimpsest server answers at `url`. Probed without the key, which no other program may see."""
    try:
        async with httpx.AsyncClient(trust_env=False, verify=url.startswith("https:"), timeout=PROBE_S) as http:
            body = (await http.get(f"{url}/readyz")).json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return False
    return isinstance(body, dict) and "components" in body and "ready" in body


async def running(server: str | None, key: str | None) -> Target:
    """The given server, else the one on this machine. Raises `NoServerError`."""
    target = given(server, key)
    if target is not None:
        return target
    settings = load_settings()
    found = await local(settings, key)
    if found is None:
        raise NoServerError(
            f"No server answers at {own_url(settings) or settings.host}. Start one with `palimpsest serve`, or set"
            " --server or PALIMPSEST_URL."
        )
    return found


@asynccontextmanager
async def running_or_embedded(server: str | None, key: str | None) -> AsyncIterator[tuple[Target, bool]]:
    """The given server or the one on this machine, else a new one in this process; and whether it is a new one."""
    target = given(server, key)
    if target is not None:
        yield target, False
        return
    settings = load_settings()
    found = await local(settings, key)
    if found is not None:
        yield found, False
        return
    with loading():
        from app.cli.embedded import EmbeddedServer

    async with EmbeddedServer(settings) as url:
        yield Target(url, key or first_key(environment()), has_to_be_named=True), True
