"""What a test needs of the machine: what is absent skips it, unless `PALIMPSEST_TEST_REQUIRE` names it."""

from __future__ import annotations

import asyncio
import os
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest

from app.bootstrap.sandboxes import open_factory
from app.errors import SandboxUnavailableError
from app.sessions import SandboxKind
from scripts.servers import postgres, redis, temporal
from tests import s3


def required() -> set[str]:
    """Names of what must be there, from the environment; CI names everything."""
    return {name.strip() for name in os.environ.get("PALIMPSEST_TEST_REQUIRE", "").split(",") if name.strip()}


@cache
def missing(kind: str) -> str | None:
    """Why a kind of sandbox, `chromium`, `postgres`, `redis`, `s3` or `temporal` cannot be had here, None if it can."""
    match kind:
        case "chromium":
            return _missing_browser()
        case "postgres":
            return postgres.missing()
        case "redis":
            return redis.missing()
        case "temporal":
            return temporal.missing()
        case "s3":
            return s3.missing()
    return _missing_sandbox(kind)


BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The first takes two thirds of the others' CPU time."""


def chromium() -> str:
    """The browser's program; empty where there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), "")


def _missing_browser() -> str | None:
    return None if chromium() else "there is no Chromium; on Debian: apt-get install chromium-headless-shell"


def _missing_sandbox(kind: str) -> str | None:
    async def check(folder: str) -> str | None:
        try:
            factory = await open_factory(cast(SandboxKind, kind), data_dir=Path(folder), instance_id="requirements")
        except SandboxUnavailableError as error:
            return error.detail
        await factory.aclose()
        return None

    with TemporaryDirectory() as folder, asyncio.Runner() as runner:
        return runner.run(check(folder))


def need(kind: str) -> None:
    """Skips the test, or fails it where CI requires the kind, if this machine has none of it."""
    reason = missing(kind)
    if reason is None:
        return
    if kind in required():
        pytest.fail(f"{kind} is required and missing: {reason}")
    pytest.skip(reason)
