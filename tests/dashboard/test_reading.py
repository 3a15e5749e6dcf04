"""Reading state is kept: expanded rows, the scroll position, and the focus."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.behavior.harness import Client, command
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import module
from tests.dashboard.places import button, composer, messages, open_session, tab
from tests.dashboard.site import Site, link
from tests.provider import Reasoning, Reply, Text, ToolCall

pytestmark = [*IN_BROWSER]

LONG = "A thought that continues.\n" * 120
JUMP = re.compile("Jump to newest")

AT_END = """(box) => box.scrollHeight - box.clientHeight - box.scrollTop < 5"""

PLACE = """(box) => {
  const top = box.getBoundingClientRect().top;
  const rows = [...box.querySelectorAll("[data-index]")].map((row) => [row, row.getBoundingClientRect()]);
  const [row, { top: start }] = rows.find(([, { top: start, bottom }]) => start <= top && bottom > top);
  return JSON.stringify([row.dataset.index, Math.round(top - start)]);
}"""


def _feed(page: Page) -> Locator:
    return page.get_by_role("feed", name="Messages")


def _jump(page: Page) -> Locator:
    return page.get_by_role("button", name=JUMP)


async def _until(box: Locator, condition: str) -> None:
    """Waits until a condition on the box is true."""
    await box.page.wait_for_function(f"(box) => ({condition})(box)", arg=await box.element_handle())


async def _top(locator: Locator) -> float:
    box = await locator.bounding_box()
    assert box is not None
    return box["y"]


async def _answered(client: Client, site: Site, *answers: Any, **options: Any) -> str:
    made = await client.create(site.task("Read", *answers), **options)
    await client.until_idle(made["id"])
    return str(made["id"])


SLOW_FRAMES = """(() => {
  const frame = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (draw) => frame(() => setTimeout(() => draw(performance.now()), 400));
})()"""
"""As on a busy machine: the list is still scrolling to its end while something is opened."""


@pytest.mark.extended
@pytest.mark.parametrize("frames", ["", SLOW_FRAMES], ids=["quick", "slow"])
async def test_a_row_expanded_at_the_end_stays_in_place(page: Page, site: Site, client: Client, frames: str) -> None:
    await page.add_init_script(frames)
    answers = [Reply(Text("Line.\n\n" * 60), command("echo", timeout_s=5))]
    await open_session(page, await _answered(client, site, *answers, Reply(Reasoning(LONG), Text("Short."))))
    await expect(messages(page).last).to_contain_text("Short.")
    await _until(_feed(page), AT_END)
    thought = button(page, f"Reasoning {len(LONG):,} characters")
    top = await _top(thought)
    height = await _feed(page).evaluate("(box) => box.scrollHeight")

    await thought.click()
    await _until(_feed(page), f"(box) => box.querySelector('.rows').clientHeight > {height} + 400")
    assert abs(await _top(thought) - top) < 3
    await expect(_jump(page)).to_be_visible()

    await thought.click()
    await expect(_jump(page)).to_be_hidden()
    await _until(_feed(page), AT_END)


@pytest.mark.extended
async def test_expanding_a_row_keeps_following_if_everything_is_visible(page: Page, site: Site, client: Client) -> None:
    await open_session(page, await _answered(client, site, Reply(Reasoning("Hm."), Text("Short."))))
    thought = button(page, "Reasoning 3 characters")

    await thought.click()

    await expect(page.get_by_text("Hm.", exact=True)).to_be_visible()
    await expect(_jump(page)).to_be_hidden()


def _calls(count: int) -> list[dict[str, Any]]:
    """Messages in which each answer has a call with a result."""
    history: list[dict[str, Any]] = []
    for number in range(count):
        function = {"name": "read_file", "arguments": json.dumps({"path": f"file{number}.txt"})}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        history += [
            {"role": "user", "content": f"Question {number}. " + "More of it. " * (number % 30)},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": f"Content {number}.\n" * 12},
        ]
    return history


async def test_a_reopened_tab_is_as_the_user_left_it(page: Page, site: Site, client: Client) -> None:
    history = {"format": "openai", "messages": _calls(60)}
    await open_session(page, await _answered(client, site, Reply(Text("Newest.")), history=history))
    await expect(messages(page).last).to_contain_text("Newest.")
    feed = _feed(page)
    await feed.evaluate("(box) => { box.scrollTop -= 2000; }")
    await expect(_jump(page)).to_be_visible()
    read = feed.locator(".fold-head").nth(9)
    argument = await read.locator(".call-argument").inner_text()
    await read.click()
    opened = feed.get_by_role("button", expanded=True)
    await expect(opened).to_have_count(1)
    await expect(feed.get_by_text(f"Content {re.sub('[^0-9]', '', argument)}.").first).to_be_attached()
    left = await feed.evaluate(PLACE)

    await tab(page, "Context").click()
    await expect(feed).to_have_count(0)
    await tab(page, "Conversation").click()

    await expect(opened).to_contain_text(argument)
    await _until(feed, f"(box) => ({PLACE})(box) === '{left}'")
    await expect(_jump(page)).to_be_visible()


FOCUSED = """() => document.activeElement.closest("[data-index]")?.dataset.index ?? null"""


@pytest.mark.extended
async def test_a_focused_row_keeps_the_focus_out_of_view(page: Page, site: Site, client: Client) -> None:
    history = {"format": "openai", "messages": _calls(60)}
    await open_session(page, await _answered(client, site, Reply(Text("Newest.")), history=history))
    await expect(messages(page).last).to_contain_text("Newest.")
    last = _feed(page).locator(".fold-head").last
    await last.focus()
    index = await page.evaluate(FOCUSED)
    assert index is not None

    # Until then the list follows its end, and would undo the scroll.
    await _until(_feed(page), AT_END)
    await _feed(page).evaluate("(box) => { box.scrollTop = 0; }")

    await expect(page.get_by_text("Question 0.")).to_be_visible()
    assert await messages(page).count() < 60
    assert await page.evaluate(FOCUSED) == index
    await page.keyboard.press("Enter")
    await expect(last).to_have_attribute("aria-expanded", "true")


@pytest.mark.extended
@pytest.mark.parametrize("frames", ["", SLOW_FRAMES], ids=["quick", "slow"])
async def test_the_event_log_keeps_its_scroll_position(page: Page, site: Site, client: Client, frames: str) -> None:
    await page.add_init_script(frames)
    history = {"format": "openai", "messages": _calls(60)}
    await open_session(page, await _answered(client, site, Reply(Text(LONG)), history=history), "events")
    box = page.get_by_role("region", name="Events")
    heads = box.locator(".event-head")
    long = heads.filter(has_text="text.completed")
    await expect(long).to_be_visible()
    await _until(box, AT_END)
    top = await _top(long)

    await long.click()
    await _until(box, f"(box) => !({AT_END})(box)")
    assert abs(await _top(long) - top) < 3
    index = await page.evaluate(FOCUSED)
    await box.evaluate("(box) => { box.scrollTop = 0; }")
    await expect(heads.filter(has_text="session.created")).to_be_visible()
    assert await page.evaluate(FOCUSED) == index

    await _jump(page).press("Enter")
    await expect(_jump(page)).to_be_hidden()
    await _until(box, AT_END)
    await expect(box).to_be_focused()


@pytest.mark.extended
async def test_a_plan_is_expanded_in_its_own_session_only(page: Page, site: Site, client: Client) -> None:
    items = [{"text": "The only item", "status": "pending"}]
    ids = [await _answered(client, site, Reply(ToolCall("update_plan", {"items": items}))) for _ in range(2)]
    plan = page.get_by_role("region", name="Plan")
    await open_session(page, ids[0])
    await plan.get_by_role("button").click()
    await expect(plan.get_by_text("The only item")).to_be_visible()

    await page.goto(link(ids[1]))

    await expect(composer(page)).to_be_visible()
    await expect(plan.get_by_role("button")).to_have_attribute("aria-expanded", "false")


async def test_leaving_a_session_frees_its_state_but_keeps_its_draft(bare: Page) -> None:
    write = """async ({ draftOf }, text) => {
      const { SessionState } = await import("/static/state/session.js");
      const state = new SessionState("absent");
      globalThis.left = new WeakRef(state);
      const draft = draftOf(state);
      if (text) draft.write(text);
      dispatchEvent(new Event("pagehide"));
      const stored = sessionStorage.getItem("palimpsest.draft.absent");
      draft.write("");
      dispatchEvent(new Event("pagehide"));
      return stored;
    }"""

    stored = await module(bare, "state/message_draft.js", write, "Not sent yet.")
    assert json.loads(stored)["text"] == "Not sent yet."
    await bare.request_gc()
    assert await bare.evaluate("globalThis.left.deref() === undefined")
