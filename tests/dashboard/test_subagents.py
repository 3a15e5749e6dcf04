"""Sub-agents in the page: read like any session, and steered with their session."""

from __future__ import annotations

import re

from playwright.async_api import Page, expect

from tests.behavior.harness import Client, command
from tests.dashboard import IN_BROWSER
from tests.dashboard.places import button, open_session
from tests.dashboard.site import Site
from tests.provider import Reply, Text, ToolCall

pytestmark = [*IN_BROWSER]


async def test_what_a_sub_agent_is_doing_is_shown_with_its_note(page: Page, site: Site, client: Client) -> None:
    part = site.task("wait for it", Reply(command("until [ -e there ]; do sleep 0.1; done")), Reply(Text("There.")))
    whole = site.task("delegate it", Reply(ToolCall("delegate", {"task": part})), Reply(Text("It is there.")))
    made = await client.create(whole, tools=["execute_command", "delegate"])
    await open_session(page, made["id"])
    note = page.locator("[data-note]")
    await expect(note).to_contain_text("working")
    await expect(note.locator("code")).to_contain_text("until [ -e there ]")
    assert (await client.http.put(f"/v1/sessions/{made['id']}/files/there", content=b"")).status_code == 201
    await expect(note).to_contain_text("completed after 2 steps")
    await expect(note.locator("code")).to_have_count(0)


async def test_a_tool_of_a_sub_agent_is_approved_call_by_call(page: Page, site: Site, client: Client) -> None:
    """A sub-agent keeps the policy that it was started with, so allowing the tool would have no effect on it."""
    part = site.task("write it", Reply(ToolCall("write_file", {"path": "a.txt", "content": "x"})), Reply(Text("Done.")))
    whole = site.task("delegate it", Reply(ToolCall("delegate", {"task": part})), Reply(Text("Done.")))
    made = await client.create(whole, tools=["write_file", "delegate"], approval={"policy": {"tools": ["write_file"]}})
    await open_session(page, made["id"])
    await expect(button(page, "Approve")).to_be_visible()
    await expect(page.get_by_role("button", name=re.compile("^Allow"))).to_have_count(0)
    await button(page, "Approve").click()
    await expect(page.locator("[data-note]")).to_contain_text("completed after 2 steps")


async def test_a_sub_agent_is_shown_without_a_message_box(page: Page, site: Site, client: Client) -> None:
    part = site.task("read the reports", Reply(Text("There are three.")))
    whole = site.task("delegate it", Reply(ToolCall("delegate", {"task": part})), Reply(Text("Three, says it.")))
    made = await client.create(whole, tools=["read_file", "delegate"])
    await client.until_idle(made["id"])

    await open_session(page, made["id"])
    note = page.locator("[data-note]")
    await expect(note).to_contain_text("completed after 1 step")
    await note.get_by_role("link").click()
    await expect(page.get_by_text("There are three.").first).to_be_visible()
    await expect(page.get_by_role("textbox", name="Message")).to_be_hidden()
    await expect(button(page, "Fork")).to_be_hidden()
    await button(page, "Actions").click()
    await expect(page.get_by_role("menuitem")).to_have_count(2)
    await page.keyboard.press("Escape")
    await page.get_by_role("link", name="its session").click()
    await expect(page.get_by_text("Three, says it.").first).to_be_visible()
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
