"""Buttons, dialogs and forms: the focus is kept, and typed text is not lost."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from tests.behavior.harness import Client, Event, command
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import Faults, module
from tests.dashboard.places import badge, button, composer, messages, open_session
from tests.dashboard.site import Site
from tests.provider import Gate, Hang, Reply, Text

pytestmark = [*IN_BROWSER]

OUTSIDE = (4, 4)
"""A point of the window that no dialog covers."""


async def test_a_busy_button_keeps_the_focus_and_ignores_clicks(page: Page, client: Client) -> None:
    session_id = (await client.create())["id"]
    await open_session(page, session_id, "files")
    await expect(page.get_by_text("Empty.")).to_be_visible()
    asked: list[Route] = []
    held = asyncio.Event()

    async def hold(route: Route) -> None:
        asked.append(route)
        await held.wait()
        await route.continue_()

    await page.route("**/files?*", hold)
    refresh = button(page, "Refresh")
    await refresh.focus()
    await page.keyboard.press("Enter")
    await expect(refresh).to_have_attribute("aria-busy", "true")
    await expect(refresh).to_be_focused()
    await page.keyboard.press("Enter")
    held.set()
    await expect(refresh).to_have_attribute("aria-busy", "false")
    await expect(refresh).to_be_focused()
    assert len(asked) == 1


async def test_a_call_decided_elsewhere_does_not_block_the_others(
    page: Page, site: Site, client: Client, faults: Faults
) -> None:
    faults.allow.append("status of 409")
    calls = [command(f"echo call {number}") for number in range(3)]
    made = await client.create(site.task("All three", Reply(*calls)), approval={"policy": "always"})
    requested: list[str] = []

    def has_all(event: Event) -> bool:
        if event.type == "approval.requested":
            requested.append(event.data["call_id"])
        return len(requested) == len(calls)

    await client.wait_for(made["id"], has_all)
    await open_session(page, made["id"])
    first = f"/v1/sessions/{made['id']}/approvals/{requested[0]}"

    async def overtake(route: Route) -> None:
        await client.http.post(first, json={"decision": "deny"})
        await route.continue_()

    await expect(page.get_by_text("Every tool call of this session needs approval.")).to_be_visible()
    await expect(page.get_by_role("button", name=re.compile("^Allow"))).to_have_count(0)
    await page.route(f"**{first}", overtake)
    await button(page, "Approve all").focus()
    await page.keyboard.press("Enter")
    await expect(badge(page, "completed")).to_be_visible()
    await expect(page.get_by_text("1 of 3 calls had already been decided.")).to_be_visible()
    await expect(composer(page)).to_be_focused()


@pytest.mark.extended
async def test_selecting_text_past_the_edge_of_a_dialog_does_not_close_it(page: Page, client: Client) -> None:
    await open_session(page, (await client.create())["id"])
    await button(page, "Actions").click()
    await page.get_by_role("menuitem", name="Rename").click()
    title = page.get_by_role("dialog").get_by_label("Title")
    await title.fill("A name that took long to find")
    await title.hover()
    await page.mouse.down()
    await page.mouse.move(*OUTSIDE)
    await page.mouse.up()
    await expect(title).to_have_value("A name that took long to find")
    await page.mouse.click(*OUTSIDE)
    await expect(title).to_be_hidden()


@pytest.mark.extended
async def test_a_session_that_leaves_the_list_can_still_be_renamed(page: Page, site: Site, client: Client) -> None:
    task = site.task("Soon over", Reply(Text("x"), Gate("leaving"), Text("y")))
    session_id = (await client.create(task))["id"]
    await page.goto("/")
    await page.get_by_label("Status").select_option("Running")
    row = page.locator(f'[data-session-id="{session_id}"]')
    await button(row, f"Actions for {task}").click()
    await page.get_by_role("menuitem", name="Rename").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Title").fill("Over")
    site.provider.open("leaving")
    await expect(row).to_be_hidden()
    await button(dialog, "Rename").click()
    await expect(dialog).to_be_hidden()
    assert (await client.session(session_id))["title"] == "Over"


@pytest.mark.extended
async def test_the_focus_moves_to_a_neighbor_after_deleting_from_the_list(page: Page, client: Client) -> None:
    names = [(await client.create(title=f"Neighbor {number}"))["id"] for number in range(2)]
    await page.goto("/")
    await page.get_by_role("searchbox").fill("Neighbor")
    kept, gone = (page.locator(f'[data-session-id="{session_id}"]') for session_id in names)
    await expect(page.locator("[data-session-id]")).to_have_count(2)
    await button(gone, "Actions for Neighbor 1").focus()
    await page.keyboard.press("Enter")
    await page.get_by_role("menuitem", name="Delete").click()
    await button(page.get_by_role("dialog"), "Delete").click()
    await expect(gone).to_be_hidden()
    await expect(kept.get_by_role("link")).to_be_focused()

    await button(kept, "Actions for Neighbor 0").click()
    await page.get_by_role("menuitem", name="Rename").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.evaluate("location.hash = '#/usage'")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Usage")
    await expect(page.get_by_role("dialog")).to_be_hidden()


async def test_the_form_closes_when_its_session_has_started(page: Page, site: Site, client: Client) -> None:
    await client.create()  # so that this is no first visit
    await page.goto("/")
    await button(page, "New session").click()
    form = page.get_by_role("form", name="New session")
    await form.get_by_label("Task").fill(site.task("Begin", Reply(Text("Yes."))))
    await button(page, "Start").click()
    await expect(messages(page, "assistant")).to_contain_text("Yes.")
    await page.get_by_role("link", name="Sessions", exact=True).click()
    await expect(button(page, "New session")).to_have_attribute("aria-expanded", "false")
    await expect(form).to_be_hidden()


@pytest.mark.extended
async def test_the_focus_moves_on_from_a_withdrawn_message(page: Page, site: Site, client: Client) -> None:
    made = await client.create(site.task("Wait for me", Reply(Text("At work."), Hang())))
    for text in ("First after it.", "Second after it."):
        await client.post(made["id"], text, "follow_up")
    await open_session(page, made["id"])
    pending = page.get_by_role("region", name="Pending messages").get_by_role("listitem")
    await expect(pending).to_have_count(2)
    await button(pending.first, "Withdraw").focus()
    await page.keyboard.press("Enter")
    await expect(pending).to_have_count(1)
    await expect(pending.get_by_role("group", name="Pending message")).to_be_focused()
    await button(pending, "Withdraw").focus()
    await page.keyboard.press("Enter")
    await expect(composer(page)).to_be_focused()
    await client.http.post(f"/v1/sessions/{made['id']}/cancel")


SHOW_OUTPUT = """async ([id, call]) => {
  const { html, render } = await import("/static/core/ui.js");
  const { OriginalOutput } = await import("/static/components/original_output.js");
  const box = document.createElement("div");
  document.querySelector("main").append(box);
  render(html`<${OriginalOutput} sessionId=${id} callId=${call} />`, box);
}"""


@pytest.mark.extended
async def test_a_full_output_can_be_loaded_further_after_a_failure(
    page: Page, site: Site, client: Client, faults: Faults
) -> None:
    faults.allow.append("status of 503")
    task = site.task("Count", Reply(command("seq 1 70000")))
    session_id = (await client.create(task))["id"]
    await client.until_idle(session_id)
    await open_session(page, session_id)
    await messages(page, "assistant").first.locator("button[aria-expanded]").click()
    await button(page, "Full output").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(re.compile(r"256 KiB of \d+ KiB"))
    busy = {"code": "busy", "title": "Busy", "detail": "The server is busy."}
    await page.route("**/output", lambda route: route.fulfill(status=503, json=busy))
    await button(dialog, "Load more").click()
    await expect(dialog.get_by_text("The server is busy.")).to_be_visible()
    await page.unroute("**/output")
    await button(dialog, "Load more").click()
    await expect(dialog.get_by_text(re.compile(r"All \d+ KiB loaded"))).to_be_visible()
    await expect(dialog.get_by_text("The server is busy.")).to_be_hidden()
    await page.keyboard.press("Escape")

    call_id = next(part["call_id"] for part in (await client.messages(session_id))[1]["parts"] if "call_id" in part)
    await page.evaluate(SHOW_OUTPUT, [session_id, call_id])
    await button(page, "Show original output").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator(".cx-original")).to_be_focused()


@pytest.mark.extended
async def test_a_compaction_preview_is_hidden_or_marked_when_it_is_outdated(
    page: Page, site: Site, client: Client
) -> None:
    task = site.task("Preview", Reply(Text("Done.")), Reply(Text("More is done.")))
    session_id = (await client.create(task))["id"]
    await client.until_idle(session_id)
    await open_session(page, session_id, "context")
    await button(page, "Compact now…").click()
    await button(page, "Preview").click()
    preview = page.get_by_role("region", name="Compaction preview")
    await expect(preview).to_contain_text("(reactive)")
    await page.get_by_label("Policy").select_option("handoff")
    await expect(preview).to_be_hidden()
    await button(page, "Preview").click()
    await expect(preview).to_contain_text("(handoff)")
    await expect(preview).not_to_contain_text("The context has changed since")
    await client.post(session_id, "Go on.")
    await expect(preview).to_contain_text("The context has changed since")


async def test_repeated_updates_do_not_postpone_a_load(bare: Page) -> None:
    script = """async ({ useThrottle }) => {
      const { html, render } = await import("/static/core/ui.js");
      let acted = 0;
      let soon;
      const Part = () => (soon = useThrottle(() => (acted += 1)), null);
      render(html`<${Part} />`, document.createElement("div"));
      const end = performance.now() + 5_000;
      let updates = 0;
      while (acted === 0 && performance.now() < end) {
        updates += 1;
        soon(30);
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
      return { acted, updates };
    }"""

    found: dict[str, Any] = await module(bare, "components/throttle.js", script)

    assert found["acted"] == 1
    assert found["updates"] > 1


async def test_a_running_round_is_shown_with_its_stored_data(bare: Page) -> None:
    script = """({ mergedRounds }) => {
      const stored = [{ round: 1, status: "running", usage: { output_tokens: 50 } }];
      const working = new Map([1, 2].map((round) => [round, { round, usage: { output_tokens: 0 } }]));
      const failed = [{ round: 1, status: "failed" }];
      const brief = (rounds) => rounds.map(({ round, status, usage }) => [round, status, usage.output_tokens]);
      return [brief(mergedRounds(stored, [], working)), brief(mergedRounds(stored, failed, new Map()))];
    }"""

    found = await module(bare, "state/context_marks.js", script)

    assert found == [[[1, "running", 50], [2, "running", 0]], [[1, "failed", 50]]]


async def test_a_failed_rung_updates_the_context(bare: Page) -> None:
    script = """async ({ contextOf }) => {
      const { SessionState } = await import("/static/state/session.js");
      const { apply } = await import("/static/state/session_events.js");
      const state = new SessionState("absent");
      const history = contextOf(state);
      const before = history.version.value;
      apply(state, { seq: 1, type: "compaction.failed", data: { round: 1, rung: "summary", next: "fold" } });
      return [before, history.version.value];
    }"""

    before, after = await module(bare, "state/context.js", script)

    assert before != after
