"""Sessions with thousands of messages: only the visible rows are rendered."""

from __future__ import annotations

import json
import re

import pytest
from playwright.async_api import Page, expect

from tests.behavior.harness import Client
from tests.dashboard import IN_BROWSER
from tests.dashboard.places import messages, open_session
from tests.dashboard.site import Site
from tests.provider import Reply, Text, ToolCall

pytestmark = [*IN_BROWSER]

PAIRS = 1_000
MOST_ROWS = 60
"""Maximum rows in a window of 800 px, including those rendered beyond it; a short message takes about 50 px."""


def _history(pairs: int) -> list[dict[str, str]]:
    return [
        message
        for number in range(pairs)
        for message in (
            {"role": "user", "content": f"Question {number}."},
            {"role": "assistant", "content": f"Answer **{number}**. " + "More of it. " * (number % 40)},
        )
    ]


@pytest.mark.slow
async def test_only_visible_rows_are_rendered(page: Page, site: Site, client: Client) -> None:
    task = site.task("After all that", Reply(Text("The newest answer.")))
    history = {"format": "openai", "messages": _history(PAIRS)}
    made = await client.create(task, history=history, model="fake-openai/model")
    await client.until_idle(made["id"])

    await open_session(page, made["id"])
    await expect(messages(page).last).to_contain_text("The newest answer.")
    feed = page.get_by_role("feed", name="Messages")
    assert await messages(page).count() < MOST_ROWS

    await feed.focus()
    for _ in range(12):
        before = await feed.evaluate("(box) => box.scrollTop")
        await page.keyboard.press("PageUp")
        await page.wait_for_function("([box, top]) => box.scrollTop !== top", arg=[await feed.element_handle(), before])
        assert 0 < await messages(page).count() < MOST_ROWS
    await expect(page.get_by_role("button", name=re.compile("Jump to newest"))).to_be_visible()

    await feed.press("Home")
    await expect(messages(page).first).to_contain_text("Question 0.")
    assert await messages(page).count() < MOST_ROWS
    await page.get_by_role("button", name=re.compile("Jump to newest")).click()
    await expect(messages(page).last).to_contain_text("The newest answer.")
    assert await messages(page).count() < MOST_ROWS


AT_END = """() => {
  const { scrollHeight, clientHeight, scrollTop } = document.querySelector('[role="feed"]');
  return scrollHeight - clientHeight - scrollTop < 5;
}"""

AT_REST = """() => {
  const box = document.querySelector('[role="feed"]');
  if (!box.scrolledAt) box.addEventListener("scroll", () => (box.scrolledAt = performance.now()));
  box.scrolledAt ??= performance.now();
  return performance.now() - box.scrolledAt > 400;
}"""
"""After a scroll the list adjusts its own position; assertions must wait until it is done."""


@pytest.mark.extended
async def test_the_newest_message_stays_visible_when_the_list_shrinks(page: Page, site: Site, client: Client) -> None:
    items = [{"text": f"Item {number}", "status": "pending"} for number in range(6)]
    task = site.task("Planned", Reply(ToolCall("update_plan", {"items": items})), Reply(Text("Line.\n\n" * 60)))
    made = await client.create(task)
    await client.until_idle(made["id"])
    await open_session(page, made["id"])
    await expect(messages(page).last).to_contain_text("Line.")
    await page.wait_for_function(AT_END)
    await page.wait_for_function(AT_REST)
    height = await page.get_by_role("feed", name="Messages").evaluate("(box) => box.clientHeight")

    await page.get_by_role("region", name="Plan").get_by_role("button").click()

    await page.wait_for_function("(height) => document.querySelector('[role=feed]').clientHeight < height", arg=height)
    await page.wait_for_function(AT_END)


@pytest.mark.extended
async def test_a_user_who_reads_further_up_keeps_their_position(page: Page, site: Site, client: Client) -> None:
    texts = ["".join(f"{word}. {n} " for n in range(2_500)) for word in ("First", "Second")]
    answers = [Reply(Text(text, 20)) for text in texts]
    made = await client.create(site.task("Reads", *answers))
    await client.until_idle(made["id"])
    await open_session(page, made["id"])
    await expect(messages(page).last).to_contain_text("First.")
    # It is shown plain, with different line breaks, until the worker has parsed it.
    await expect(messages(page).last.locator(".as-is")).to_have_count(0)
    feed = page.get_by_role("feed", name="Messages")
    await feed.focus()
    # The browser animates the scroll.
    await feed.evaluate("(box) => { box.there = new Promise((tell) => box.addEventListener('scrollend', tell)); }")
    await page.keyboard.press("PageUp")
    await feed.evaluate("(box) => box.there.then(() => null)")
    jump = page.get_by_role("button", name=re.compile("Jump to newest"))
    await expect(jump).to_be_visible()
    place = await feed.evaluate("(box) => box.scrollTop")

    await client.post(made["id"], "More")
    await expect(page.get_by_role("button", name=re.compile(r"Jump to newest \(\d+ new\)"))).to_be_visible()
    await client.until_idle(made["id"])
    assert abs(await feed.evaluate("(box) => box.scrollTop") - place) < 3, json.dumps(place)

    await jump.click()
    await expect(messages(page).last).to_contain_text("Second.")
    await expect(jump).to_be_hidden()
