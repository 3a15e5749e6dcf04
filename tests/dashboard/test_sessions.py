"""The list of sessions: the first visit, live updates, and the actions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Browser, BrowserContext, Page, Route, expect

from tests.behavior.harness import Client, command
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import Faults, watched
from tests.dashboard.conftest import ServeSite
from tests.dashboard.places import badge, button, messages, open_session, say
from tests.dashboard.site import Site
from tests.provider import Gate, Reply, Text

pytestmark = [*IN_BROWSER]


async def test_the_first_visit_without_a_model_starts_the_demo_with_one_click(
    own_site: ServeSite, browser: Browser
) -> None:
    environment = {"PALIMPSEST_MODEL": "scripted/demo", "PALIMPSEST_PROVIDERS": "{}", "PALIMPSEST_MODELS": "{}"}
    with own_site(**environment) as site:
        async with watched(browser, site.url) as (context, _):
            page = await context.new_page()
            await page.goto("/")
            await button(page, "Watch the demo").click()
            await expect(messages(page, "assistant").first).to_contain_text("This is a scripted demo")
            await expect(page.locator("[data-call-id][data-status=completed]").first).to_be_visible()


COUNT_FORMATTERS = """
globalThis.formatters = 0;
for (const name of ["Collator", "DateTimeFormat", "NumberFormat", "RelativeTimeFormat"]) {
  Intl[name] = new Proxy(Intl[name], {
    construct: (target, args) => ((globalThis.formatters += 1), new target(...args)),
  });
}
"""
"""A page's first formatter takes 20 ms."""

WITHOUT_INTERVALS = "globalThis.setInterval = () => 0;"
"""Keeps a slow page from reloading the rows of running sessions, which other tests leave, every few seconds."""


@asynccontextmanager
async def script_held(page: Page) -> AsyncIterator[None]:
    """The page's script loads only after the block."""
    block_left = asyncio.Event()

    async def hold(route: Route) -> None:
        await block_left.wait()
        await route.continue_()

    await page.route("**/main.js", hold)
    try:
        yield
    finally:
        block_left.set()


async def test_the_first_view_loads_only_what_it_shows(context: BrowserContext, site: Site, client: Client) -> None:
    made = await client.create(site.task("Answer briefly", Reply(Text("**Done.**"))))
    await client.until_idle(made["id"])
    page = await context.new_page()
    await page.add_init_script(COUNT_FORMATTERS + WITHOUT_INTERVALS)
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url.removeprefix(site.url)))
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(request.url))

    async with script_held(page), page.expect_response("**/v1/sessions?limit=50*"):
        await page.goto("/", wait_until="commit")
    await expect(page.locator(f'[data-session-id="{made["id"]}"] time')).to_have_text(re.compile("now|ago"))
    assert not [address for address in requested if "/later/" in address]
    assert await page.evaluate("formatters") == 0
    assert await page.evaluate("sentRequests.size") == 0
    # Sessions of other tests may wait for approvals, which the list shows.
    calls = [address for address in requested if re.match(r"/v1/(events|sessions)\?", address)]
    assert len(calls) == len({*calls}) == 4, calls
    assert failed == []
    async with page.expect_event("requestfailed", lambda request: request.url.endswith("/v1/events?activity=true")):
        await page.locator(f'[data-session-id="{made["id"]}"] a').click()

    await expect(messages(page, "assistant").locator("strong")).to_have_text("Done.")
    requested.clear()  # after the click has requested the session
    async with script_held(page), page.expect_response("**/queue"):
        await page.goto(f"/?again#/sessions/{made['id']}", wait_until="commit")
    await expect(messages(page, "assistant").locator("strong")).to_have_text("Done.")
    assert await page.evaluate("formatters") == 0
    assert await page.evaluate("sentRequests.size") == 0
    for address in ("", "/queue"):
        assert requested.count(f"/v1/sessions/{made['id']}{address}") == 1, address
    time = messages(page, "assistant").locator("time")
    await time.hover()
    await expect(time).to_have_attribute("title", re.compile(r"20\d\d, \d\d:\d\d:\d\d"))


async def test_the_list_updates_live(page: Page, site: Site, client: Client, faults: Faults) -> None:
    await client.create()  # so that this is no first visit
    await page.goto("/")
    await expect(page.get_by_role("search")).to_be_visible()
    task = site.task("Freshly made", Reply(Text("x"), Gate("fresh-1"), Text("y")))
    made = await client.create(task)
    row = page.locator(f'[data-session-id="{made["id"]}"]')
    await expect(row).to_contain_text("running")
    site.provider.open("fresh-1")
    await expect(row).to_contain_text("completed")

    await button(row, f"Actions for {task}").click()
    await page.get_by_role("menuitem", name="Rename").click()
    await page.get_by_role("dialog").get_by_label("Title").fill("A better name")
    await button(page.get_by_role("dialog"), "Rename").click()
    await expect(row).to_contain_text("A better name")

    await page.get_by_role("searchbox").fill("no such session")
    await expect(row).to_be_hidden()
    await page.get_by_role("searchbox").fill("better name")
    await expect(row).to_be_visible()
    # The row may be reloaded for its new name while it is deleted.
    faults.allow.append(f"status of 404.*{made['id']}")
    await button(row, "Actions for A better name").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await button(page.get_by_role("dialog"), "Delete").click()
    await expect(row).to_be_hidden()


@pytest.mark.extended
async def test_only_running_sessions_in_the_list_are_reloaded(page: Page, site: Site, client: Client) -> None:
    task = site.task("Loaded again", Reply(Text("x"), Gate("again-1")))
    made = await client.create(task)
    await page.clock.install()
    await page.goto("/")
    await page.get_by_role("searchbox").fill(task)
    await page.clock.run_for(1_000)
    await expect(page.locator(".session-row")).to_have_count(1)

    async with page.expect_request(lambda request: "status=running" in request.url) as asked:
        await page.clock.run_for(6_000)

    query = parse_qs(urlsplit((await asked.value).url).query)
    assert query == {"status": ["running"], "limit": ["1"], "sort": ["activity"], "q": [task]}
    site.provider.open("again-1")
    await client.until_idle(made["id"])


@pytest.mark.extended
@pytest.mark.docker
@pytest.mark.usefixtures("docker")
async def test_a_session_in_a_container_is_shown_like_any_other(own_site: ServeSite, browser: Browser) -> None:
    with own_site("docker") as site:
        task = site.task("In a container", Reply(command("echo from the container")))
        async with watched(browser, site.url) as (context, _), Client(site.url) as client:
            made = await client.create(task)
            page = await context.new_page()
            await open_session(page, made["id"])
            await expect(badge(page, "completed")).to_be_visible()
            await messages(page, "assistant").first.locator("button[aria-expanded]").click()
            await expect(page.get_by_role("region", name="Output")).to_contain_text("from the container")
            await say(page, "Thank you.")
            await expect(messages(page, "user").last).to_contain_text("Thank you.")
            await client.until_idle(made["id"])
            assert (await client.http.delete(f"/v1/sessions/{made['id']}")).status_code == 204
            await expect(page.get_by_text("This session does not exist")).to_be_visible()
