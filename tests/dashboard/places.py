"""Locators for the parts of the page."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from playwright.async_api import Locator, Page, expect

from tests.dashboard.browser import TIMEOUT_S
from tests.dashboard.site import link


def head(page: Page) -> Locator:
    """A session's header: its name, status and gauge."""
    return page.locator(".session-head")


def badge(page: Page, text: str) -> Locator:
    """The session's status in its header."""
    return head(page).locator(".badge").get_by_text(text, exact=True)


def messages(page: Page, role: str | None = None) -> Locator:
    """Messages in the transcript, optionally of one role."""
    return page.locator(f'[data-message-id][data-role="{role}"]' if role else "[data-message-id][data-role]")


def composer(page: Page) -> Locator:
    return page.get_by_label("Message", exact=True).and_(page.locator("textarea"))


def button(page: Page | Locator, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def tab(page: Page, name: str) -> Locator:
    return page.get_by_role("navigation", name="Views of this session").get_by_role("link", name=name)


async def open_session(page: Page, session_id: str, view: str = "") -> None:
    """Opens a session's view and waits for its header."""
    await page.goto(link(session_id, view))
    await expect(page.get_by_role("heading", level=1)).to_be_visible()


async def say(page: Page, text: str, mode: str = "Steer") -> None:
    """Sends a message like a user."""
    await expect(composer(page)).to_be_visible()
    if await (choice := page.get_by_role("radio", name=mode, exact=True)).count():  # an idle session needs no mode
        await choice.check()
    await composer(page).fill(text)
    await button(page, "Send").click()
    await expect(composer(page)).to_have_value("")


async def transcript(page: Page) -> list[str]:
    """The visible text of each rendered message."""
    return await messages(page).all_inner_texts()


async def same_as_afterwards(page: Page) -> None:
    """Asserts that the page shows the same conversation as a freshly opened one."""
    fresh = await page.context.new_page()
    await fresh.goto(page.url)
    await expect(messages(fresh)).to_have_count(await messages(page).count())
    last = await messages(page).last.inner_text()
    await expect(messages(fresh).last).to_have_text(last, use_inner_text=True)
    with suppress(TimeoutError):
        # A long text is shown plain until the worker has parsed it, and a header without what is still loading.
        async with asyncio.timeout(TIMEOUT_S):
            while await _shown(fresh) != await _shown(page):
                pass
    assert await _shown(fresh) == await _shown(page)
    await fresh.close()


async def _shown(page: Page) -> tuple[object, str]:
    return await transcript(page), await head(page).inner_text()


def session_id(page: Page) -> str:
    """The session id in the page's address."""
    return page.url.partition("#/sessions/")[2].partition("/")[0]
