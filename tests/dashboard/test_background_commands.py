"""Background commands in the page: their output while they run, a button that stops them, and how they ended."""

from __future__ import annotations

from playwright.async_api import Page, expect

from tests.behavior.harness import Client
from tests.behavior.test_background_commands import background
from tests.dashboard import IN_BROWSER
from tests.dashboard.places import button, open_session
from tests.dashboard.site import Site
from tests.provider import Reply, Text

pytestmark = [*IN_BROWSER]


async def test_a_background_command_is_shown_while_it_runs_and_can_be_stopped(
    page: Page, site: Site, client: Client
) -> None:
    calls = (background("echo listening on 8000; sleep 600"), background("echo broken; exit 3"))
    made = await client.create(site.task("serve it", Reply(*calls), Reply(Text("It serves."))))
    await open_session(page, made["id"])
    notes = page.locator("[data-note]")
    await expect(notes.nth(1)).to_contain_text("echo broken; exit 3: ended with exit code 3")
    await expect(notes.nth(1).get_by_role("button", name="Stop")).to_be_hidden()
    server = notes.nth(0)
    await expect(server).to_contain_text("sleep 600: running")
    await expect(server.get_by_label("Live output")).to_contain_text("listening on 8000")
    stop = button(server, "Stop echo listening on 8000; sleep 600")
    await stop.click()
    await expect(server).to_contain_text("sleep 600: stopped")
    await expect(stop).to_be_hidden()
    (stopped, ended) = (await client.get(f"/v1/sessions/{made['id']}/commands"))["items"]
    assert [stopped["status"], ended["status"]] == ["stopped", "exited"]
    await button(server, "Output").click()
    await expect(page.get_by_role("dialog")).to_contain_text("listening on 8000")
