"""The bottom of a conversation: the run's status, and the focus when it is cancelled and resumed."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, Route, expect

from tests.behavior.harness import Client, command
from tests.behavior.long_task import asks_for_summary
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import Faults
from tests.dashboard.places import badge, button, messages, open_session
from tests.dashboard.site import SMALL, Site
from tests.provider import Gate, Hang, HttpError, Reply, Text, ToolCall

pytestmark = [*IN_BROWSER]


@pytest.mark.extended
async def test_the_next_run_can_be_cancelled_after_an_earlier_cancel(page: Page, site: Site, client: Client) -> None:
    task = site.task("Two runs", Reply(Text("One", 2), Gate("runs-1")), Reply(Text("Two", 2), Hang()))
    made = await client.create(task)
    # A cancel that arrives too late to end the run.
    await page.route("**/cancel", lambda route: route.fulfill(status=202, json={}), times=1)
    await open_session(page, made["id"])
    await expect(messages(page, "assistant").last).to_contain_text("One")
    await button(page, "Cancel run").click()
    await expect(page.get_by_text("Cancelling…")).to_be_visible()
    await client.post(made["id"], "Go on.", "follow_up")

    site.provider.open("runs-1")

    await expect(messages(page, "assistant").last).to_contain_text("Two")
    await expect(page.get_by_text("Working, 1 step done")).to_be_visible()
    await button(page, "Cancel run").click()
    await expect(badge(page, "cancelled")).to_be_visible()


@pytest.mark.extended
async def test_the_focus_stays_close_when_a_run_is_cancelled_or_resumed(page: Page, site: Site, client: Client) -> None:
    made = await client.create(site.task("By keyboard", Reply(Text("Long", 2), Hang()), Reply(Text("More", 2), Hang())))
    await open_session(page, made["id"])
    await expect(messages(page, "assistant").last).to_contain_text("Long")
    steering = page.get_by_role("region", name="Steer this session")

    await button(page, "Cancel run").press("Enter")
    await expect(badge(page, "cancelled")).to_be_visible()
    await expect(steering).to_be_focused()

    await button(page, "Resume").press("Enter")
    await expect(messages(page, "assistant").last).to_contain_text("More")
    await expect(steering).to_be_focused()
    await client.http.post(f"/v1/sessions/{made['id']}/cancel")


async def test_a_compaction_that_the_run_waits_for_is_shown(page: Page, site: Site, client: Client) -> None:
    name = "A running compaction"
    site.provider.respond(
        lambda _: Reply(Gate("compaction-seen"), Text("## Completed Work\n\nAll of it.")),
        when=lambda request: asks_for_summary(request) and any(name in text for text in request.user_texts),
    )
    call = ToolCall("execute_command", {"command": f"true # {'x' * 3500}"})
    steps = [Reply(Text(f"Reading part {step}."), call) for step in range(6)]
    made = await client.create(site.task(name, *steps), model=SMALL)
    await open_session(page, made["id"])
    await site.provider.reached("compaction-seen")

    await expect(page.get_by_text("Compacting the context")).to_be_visible()
    await page.get_by_role("radio", name="Interrupt").check()
    await expect(page.get_by_text("Ends the step once the compaction is done")).to_be_visible()

    site.provider.open("compaction-seen")
    await expect(page.get_by_text("Compacting the context")).to_be_hidden()
    await client.until_idle(made["id"])


async def test_a_summary_made_without_a_model_is_marked_and_redone(
    page: Page, site: Site, client: Client, faults: Faults
) -> None:
    name, fails, mark = "A silent summarizer", [True], "Summarized without a model"
    site.provider.respond(
        lambda _: Reply(Text(" ")),
        when=lambda request: fails[0] and asks_for_summary(request) and any(name in t for t in request.user_texts),
    )
    steps = [Reply(Text(f"Part {step}."), command("seq 900")) for step in range(4)]
    session_id = (await client.create(site.task(name, *steps)))["id"]
    await client.until_idle(session_id)
    await client.http.post(f"/v1/sessions/{session_id}/compactions")
    await client.wait_for(session_id, lambda event: event.type == "compaction.completed")

    await open_session(page, session_id)
    await expect(page.locator('[data-round="1"]').get_by_text(mark)).to_be_visible()
    await open_session(page, session_id, "context")
    await expect(page.locator("#round-1 .badge").get_by_text(mark)).to_be_visible()
    await page.locator("#round-1 .cx-round-head").click()
    details = page.locator("#round-1 .cx-round-body")
    await expect(details).to_contain_text(re.compile(rf"{mark}\. .+ \(summary_empty\)"))

    faults.allow.append("status of 409")
    busy = {"code": "compaction_in_progress", "detail": "A compaction of this session is already running."}
    await page.route("**/compactions/1", lambda route: route.fulfill(status=409, json=busy), times=1)
    await button(details, "Redo with the model").click()
    await expect(page.get_by_text(busy["detail"])).to_be_visible()
    fails[0] = False
    faults.allow.append("status of 503")
    down = {"code": "unavailable", "detail": "The server is stopping."}

    async def refuse(route: Route) -> None:
        if route.request.method == "POST":
            await route.fulfill(status=503, json=down)
        else:
            await route.fallback()

    await page.route("**/compactions", refuse)
    await button(details, "Redo with the model").click()
    await expect(details).to_contain_text("The server is stopping. The context is complete again")
    await expect(page.locator("#round-1")).to_contain_text("reverted")
    await page.unroute("**/compactions", refuse)
    await button(details, "Compact now").click()
    await expect(details).not_to_contain_text("The context is complete again")
    await expect(page.locator("#round-2")).to_contain_text("summary by the model")
    await expect(page.locator("#round-1")).to_contain_text("reverted")
    await expect(page.get_by_text(mark)).to_have_count(0)


async def test_a_summary_that_waits_for_its_provider_says_why(page: Page, site: Site, client: Client) -> None:
    name = "An absent summarizer"
    site.provider.respond(
        lambda _: HttpError(503, headers={"retry-after": "60"}),
        when=lambda request: asks_for_summary(request) and any(name in text for text in request.user_texts),
    )
    steps = [Reply(Text(f"Part {step}."), command("seq 900")) for step in range(4)]
    session_id = (await client.create(site.task(name, *steps)))["id"]
    await client.until_idle(session_id)
    await open_session(page, session_id)
    await client.http.post(f"/v1/sessions/{session_id}/compactions")

    said = re.compile(r"Compacting… .+ answered 503.* \(attempt 1\); trying again in \d+ s")
    await expect(page.locator(".steering")).to_contain_text(said)
    await client.http.post(f"/v1/sessions/{session_id}/cancel")
    await expect(page.get_by_text("Compacting…")).to_be_hidden()
