"""MCP servers on the page: what became of them, and their tools in the context view."""

from __future__ import annotations

import re

from playwright.async_api import Page, expect

from tests.behavior.harness import Client
from tests.dashboard import IN_BROWSER
from tests.dashboard.places import messages, open_session, tab
from tests.dashboard.site import Site
from tests.mcp_servers import SCRIPT
from tests.provider import Reply, Text, ToolCall

pytestmark = [*IN_BROWSER]


async def test_what_became_of_mcp_servers_is_shown(page: Page, site: Site, client: Client) -> None:
    servers = {"sh": {"command": "sh", "args": ["server.sh"]}, "tracker": {"command": "no-such-program"}}
    session_id = (await client.create(mcp_servers=servers))["id"]
    await client.http.put(f"/v1/sessions/{session_id}/files/server.sh", content=SCRIPT)
    await open_session(page, session_id)
    await client.post(session_id, site.task("Touch it", Reply(ToolCall("mcp__sh__touch", {})), Reply(Text("Touched."))))
    await expect(messages(page, "assistant").last).to_contain_text("Touched.")

    await expect(page.get_by_role("article", name="MCP server sh")).to_contain_text("MCP server sh ready: 3 tools.")
    failed = page.get_by_role("article", name="MCP server tracker")
    await expect(failed).to_contain_text(re.compile(r"failed \(\w+\): .*It is retried while the session works."))
    await expect(page.locator(".call")).to_contain_text("sh › touch")

    await tab(page, "Context").click()
    await page.get_by_role("button", name="System prompt,").click()
    await expect(page.get_by_role("list", name="Parts of the system prompt")).to_contain_text("instructions")
    await page.get_by_role("button", name=re.compile(r"\d+ tools, ")).click()
    await expect(page.get_by_role("button", name=re.compile(r"sh › die, \d+ tokens, MCP server sh"))).to_be_visible()
    await expect(page.get_by_role("listitem").filter(has_text="tracker")).to_contain_text("failed")
