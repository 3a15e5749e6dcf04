"""A page whose server is killed, or whose network fails, in the middle of a stream goes on by itself."""

from __future__ import annotations

import signal

from playwright.async_api import Browser, expect

from tests.behaviour.harness import Client
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import UNREACHABLE, watched
from tests.dashboard.conftest import ServeSite
from tests.dashboard.places import badge, messages, open_session, same_as_afterwards
from tests.dashboard.proxy import Network
from tests.dashboard.site import Site, port_of, server
from tests.provider import Gate, Hang, Reasoning, Reply, Text, ToolCall

pytestmark = [*IN_BROWSER]

WORDS = " ".join(f"word{number}" for number in range(300))


async def test_the_server_is_killed_in_the_middle_of_a_stream(browser: Browser, own_site: ServeSite) -> None:
    with own_site() as site:
        task = site.task(
            "Kill",
            Reply(Text("First a look."), ToolCall("execute_command", {"command": "echo looked"})),
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
            with server(site.folder, site.provider, port=port_of(site.url)):
                await expect(messages(page, "assistant").last).to_contain_text(
                    "Going on after the fall.", timeout=30_000
                )
                await expect(badge(page, "completed")).to_be_visible()
                await expect(page.get_by_text("Offline")).to_be_hidden()
                await same_as_afterwards(page)


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
        await expect(answer).to_contain_text("word299 and on", timeout=20_000)

        await network.cut()
        await expect(page.get_by_text("Offline")).to_be_visible()
        site.provider.open("cut-2")
        await client.until_idle(session_id)
        await network.mend()
        await page.get_by_role("button", name="Try now").click()

        await expect(answer).to_contain_text("word299 and on to the end.")
        assert (await answer.inner_text()).count("word299") == 1
        await expect(badge(page, "completed")).to_be_visible()
        await same_as_afterwards(page)
