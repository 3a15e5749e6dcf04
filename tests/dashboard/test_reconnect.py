"""The page recovers by itself when the server is killed or the network fails in the middle of a stream."""

from __future__ import annotations

import signal

import pytest
from playwright.async_api import Browser, BrowserContext, Page, Route, expect

from tests.behavior.harness import Client, command
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import UNREACHABLE, Faults, module, watched
from tests.dashboard.conftest import ServeSite
from tests.dashboard.places import badge, head, messages, open_session, same_as_afterwards
from tests.dashboard.proxy import Network
from tests.dashboard.site import Site, link, port_of, server
from tests.provider import Gate, Hang, Reasoning, Reply, Text

pytestmark = [*IN_BROWSER]

WORDS = " ".join(f"word{number}" for number in range(300))


@pytest.mark.slow
async def test_the_server_is_killed_in_the_middle_of_a_stream(browser: Browser, own_site: ServeSite) -> None:
    with own_site() as site:
        task = site.task(
            "Kill",
            Reply(Text("First a look."), command("echo looked")),
            Reply(Reasoning("Hm. " * 20, 5), Text(WORDS, 200), Hang()),
            Reply(Text("Going on after the fall.", 3)),
        )
        async with watched(browser, site.url) as (context, faults):
            faults.allow.append(UNREACHABLE)
            page = await context.new_page()
            async with Client(site.url) as client:
                session_id = (await client.create(task))["id"]
            await open_session(page, session_id)
            await expect(messages(page, "assistant").last).to_contain_text("word299")

            site.server.end(signal.SIGKILL)
            await expect(page.get_by_text("Offline")).to_be_visible()
            await expect(page.get_by_text("Last known: Working")).to_be_visible()
            with server(site.folder, site.provider, port=port_of(site.url)):
                await expect(messages(page, "assistant").last).to_contain_text("Going on after the fall.")
                await expect(badge(page, "completed")).to_be_visible()
                await expect(page.get_by_text("Offline")).to_be_hidden()
                await same_as_afterwards(page)


@pytest.mark.extended
async def test_the_network_fails_in_the_middle_of_a_stream(site: Site, browser: Browser) -> None:
    task = site.task(
        "Cut",
        Reply(Text(WORDS, 100), Gate("cut-1"), Text(" and on", 3), Gate("cut-2"), Text(" to the end.", 3)),
    )
    async with (
        Client(site.url) as client,
        Network(site.url) as network,
        watched(browser, network.url) as (context, faults),
    ):
        faults.allow.append(UNREACHABLE)
        page = await context.new_page()
        session_id = (await client.create(task))["id"]
        await open_session(page, session_id)
        answer = messages(page, "assistant").last
        await expect(answer).to_contain_text("word299")

        await network.drop()
        site.provider.open("cut-1")
        await expect(answer).to_contain_text("word299 and on")

        await network.cut()
        await expect(page.get_by_text("Offline")).to_be_visible()
        site.provider.open("cut-2")
        await client.until_idle(session_id)
        await network.restore()
        # In one go, since the page may reconnect by itself while a click waits for the button to stay in place.
        await page.get_by_role("button", name="Retry now").evaluate_all("(all) => all[0]?.click()")

        await expect(answer).to_contain_text("word299 and on to the end.")
        assert (await answer.inner_text()).count("word299") == 1
        await expect(badge(page, "completed")).to_be_visible()
        await same_as_afterwards(page)


LOOK = """(state) => {
  Object.defineProperty(document, "visibilityState", { configurable: true, get: () => state });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.mark.extended
async def test_a_hidden_page_closes_its_connection_until_it_is_visible(page: Page, site: Site, client: Client) -> None:
    made = await client.create(site.task("Hidden", Reply(Text("Seen.")), Reply(Text("Written behind."))))
    await client.until_idle(made["id"])
    await page.clock.install()
    await open_session(page, made["id"])
    await expect(messages(page, "assistant").last).to_contain_text("Seen.")
    await expect(page.locator(".connection.live")).to_be_attached()
    wait = await module(page, "core/follow.js", "({ HIDDEN_MS }) => HIDDEN_MS")

    await page.evaluate(LOOK, "hidden")
    async with page.expect_event("requestfailed", lambda request: request.url.endswith("/events")):
        await page.clock.fast_forward(wait)
    begun: list[str] = []
    page.on("request", lambda request: begun.append(request.url))
    await client.say(made["id"], "Go on.")
    await page.clock.fast_forward(wait)
    await expect(page.locator(".connection.live")).to_be_attached()
    assert not [url for url in begun if url.endswith("/events")]

    await page.evaluate(LOOK, "visible")
    await expect(messages(page, "assistant").last).to_contain_text("Written behind.")
    await expect(page.locator(".connection.live")).to_be_attached()


@pytest.mark.extended
async def test_loading_a_session_is_retried(
    context: BrowserContext, faults: Faults, page: Page, site: Site, client: Client
) -> None:
    faults.allow.append("503")
    made = await client.create(site.task("Tried again", Reply(Text("Here at last."))))
    await client.until_idle(made["id"])
    busy = True

    async def refuse(route: Route) -> None:
        await (route.fulfill(status=503, json={"detail": "Busy."}) if busy else route.continue_())

    has_log = False

    async def refuse_log(route: Route) -> None:
        await (route.continue_() if has_log else route.fulfill(status=503, json={"detail": "Busy."}))

    await context.route("**/approvals", refuse)
    await context.route("**/log?*", refuse_log)
    await page.goto(link(made["id"]))
    await expect(page.get_by_role("alert")).to_contain_text("Busy.")
    await expect(page.get_by_text("Retrying automatically")).to_be_visible()

    busy = False
    await expect(messages(page, "assistant")).to_contain_text("Here at last.")
    await expect(page.get_by_text("Busy.")).to_be_hidden()
    has_log = True
    await expect(head(page).get_by_title("Time of the last run")).to_be_visible()


@pytest.mark.extended
async def test_a_page_whose_first_module_fails_to_load_shows_a_notice(site: Site, browser: Browser) -> None:
    async with watched(browser, site.url) as (context, faults):
        faults.allow.append(UNREACHABLE)
        await context.route("**/start.js", lambda route: route.abort())
        page = await context.new_page()
        await page.goto("/")
        await expect(page.get_by_text("Loading… If this persists, reload.")).to_be_visible()
        await context.unroute("**/start.js")
        await page.reload()
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.get_by_text("If this persists")).to_have_count(0)
