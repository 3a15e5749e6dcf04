"""Client tools: their calls wait for a result, which the page can post."""

from __future__ import annotations

import re

from playwright.async_api import Page, expect

from tests.behavior.harness import Client, Event
from tests.dashboard import IN_BROWSER
from tests.dashboard.places import badge, button, composer, open_session, tab
from tests.dashboard.site import Site
from tests.provider import RecordedRequest, Reply, Text, ToolCall

pytestmark = [*IN_BROWSER]

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
TICKETS = {"type": "client", "name": "open_ticket", "description": "Opens a ticket.", "parameters": SCHEMA}


async def test_the_result_of_a_client_tool_is_posted_from_the_page(page: Page, site: Site, client: Client) -> None:
    calls = [ToolCall("open_ticket", {"title": title}) for title in ("The first bug", "The second bug")]
    task = site.task("Open tickets", Reply(*calls), Reply(Text("Both are open.")))
    session_id = (await client.create(task, tools=[TICKETS]))["id"]
    called: list[str] = []

    def both(event: Event) -> bool:
        if event.data.get("waits_for_client"):
            called.append(event.data["call_id"])
        return len(called) == len(calls)

    await client.wait_for(session_id, both)
    await open_session(page, session_id)
    forms = page.get_by_role("article", name="Result of open_ticket")
    await expect(forms).to_have_count(2)
    await expect(badge(page, "awaiting client")).to_be_visible()
    await expect(tab(page, "Conversation")).to_contain_text("2")
    await expect(forms.first).to_contain_text(re.compile("times out in .*The first bug", re.DOTALL))

    await client.http.post(f"/v1/sessions/{session_id}/tool-calls/{called[1]}/result", json={"output": "Ticket 18"})
    await expect(forms).to_have_count(1)
    await forms.get_by_label("Result (shown to the model)").fill("Ticket 17")
    await button(forms, "Post result").press("Enter")
    await expect(badge(page, "completed")).to_be_visible()
    await expect(forms).to_have_count(0)
    await expect(composer(page)).to_be_focused()

    def concerns(request: RecordedRequest) -> bool:
        return any(task in text for text in request.user_texts)

    newest = [request for request in site.provider.requests if concerns(request)][-1]
    assert [*newest.tool_results.values()] == ["Ticket 17", "Ticket 18"]
