"""A browser whose pages are monitored: any error in a page fails its test."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    WebError,
    async_playwright,
    expect,
)

from tests.requirements import chromium

ARGUMENTS = (
    "--no-sandbox",  # tests run as root in CI, where Chromium's own sandbox cannot start
    "--disable-background-networking",
    # Other hosts do not resolve, so that no request can leave this machine.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--enable-precise-memory-info",
)

TELL_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
});
"""

UNREACHABLE = r"net::ERR_|WebSocket"
"""The browser's own console messages while the server is unreachable; for tests that stop it."""

TIMEOUT_S = 60
"""How long the page may take to show the expected state. Far longer than it needs: other processes may have the CPU."""

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


@dataclass
class Faults:
    """Problems in a context's pages: errors, console messages, Content-Security-Policy violations, and requests to
    other origins. `allow` holds patterns of problems that a test expects."""

    origin: str
    allow: list[str] = field(default_factory=list)
    _found: list[str] = field(default_factory=list)

    def watch(self, context: BrowserContext) -> None:
        context.on("weberror", self._on_error)
        context.on("console", self._on_console)
        context.on("request", self._on_request)

    @property
    def found(self) -> list[str]:
        return [fault for fault in self._found if not any(re.search(pattern, fault) for pattern in self.allow)]

    def _on_error(self, error: WebError) -> None:
        self._found.append(f"error: {error.error.message} {error.error.stack or ''}")

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self._found.append(f"console: {message.text} {message.location.get('url', '')}")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.origin}/", f"blob:{self.origin}/")):
            self._found.append(f"request to another origin: {request.url}")


@asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    """The machine's Chromium, headless."""
    expect.set_options(timeout=TIMEOUT_S * 1_000)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=Path(__file__).with_name("deaf_chromium.py"),
            env={**os.environ, "PALIMPSEST_TEST_CHROMIUM": chromium()},
            args=list(ARGUMENTS),
            timeout=TIMEOUT_S * 1_000,
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def watched(browser: Browser, origin: str, **options: Any) -> AsyncIterator[tuple[BrowserContext, Faults]]:
    """A fresh browser context with the server as its base URL, which must have no unexpected faults at the end."""
    options = {"viewport": DESKTOP, "locale": "en-GB", "timezone_id": "UTC", **options}
    context = await browser.new_context(base_url=origin, **options)
    faults = Faults(origin)
    faults.watch(context)
    context.set_default_timeout(TIMEOUT_S * 1_000)
    await context.add_init_script(TELL_VIOLATIONS)
    try:
        yield context, faults
    except BaseException as error:
        # A problem in the page is usually why a test timed out.
        error.add_note("\n".join(["Faults of the page:", *faults.found]))
        raise
    finally:
        await context.close()
    assert not faults.found, "\n".join(faults.found)


async def module(page: Page, path: str, script: str, argument: Any = None) -> Any:
    """The result of a function `(module, argument) => …` for one of the page's modules, such as `core/sse.js`."""
    call = f"async ([path, argument]) => ({script})(await import(path), argument)"
    return await page.evaluate(call, [f"/static/{path}", argument])
