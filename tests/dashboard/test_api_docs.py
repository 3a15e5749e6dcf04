"""The API's documentation at `/docs`."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.dashboard import IN_BROWSER
from tests.dashboard.site import Site

pytestmark = [*IN_BROWSER]


@pytest.mark.slow
async def test_the_documentation_shows_the_servers_operations(site: Site, page: Page) -> None:
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    await page.goto(f"{site.url}/docs")
    await expect(page.get_by_role("heading", name="Palimpsest")).to_be_visible()
    await page.get_by_role("link", name="sessions", exact=True).click()
    await expect(page.locator("#operations-sessions-createSession")).to_contain_text("/v1/sessions")
    assert all(url.startswith((site.url, "data:")) for url in requested), "nothing comes from elsewhere"
