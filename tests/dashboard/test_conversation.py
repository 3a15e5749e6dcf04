"""The frame of the conversation: its header, its compactions, and the room that it keeps."""

from __future__ import annotations

import re

from playwright.async_api import Page, expect

from tests.behavior.harness import Client, command
from tests.behavior.rounds import compacted
from tests.dashboard import IN_BROWSER
from tests.dashboard.places import button, head, messages, open_session
from tests.dashboard.site import SMALL, Site
from tests.provider import Reply, Text

pytestmark = [*IN_BROWSER]

SHARE = "(box) => box.clientHeight / innerHeight"
IS_ON_TOP = """(box) => {
  const { left, bottom } = box.getBoundingClientRect();
  return box.contains(document.elementFromPoint(left + 8, bottom - 4));
}"""
"""Whether the end of a box is not covered by something else."""


async def test_the_conversation_explains_itself_and_keeps_its_room(page: Page, site: Site, client: Client) -> None:
    long = "A task with a name that is much longer than the header is wide, " * 3
    task = site.task(
        long,
        *(Reply(Text(f"Part {part}."), command(f"seq {part} {part + 900}")) for part in (1, 2, 3)),
        Reply(Text("Half is done.")),
        Reply(Text("Now the rest."), command("make deploy STAGE=production REGION=eu-central-1")),
    )
    approval = {"policy": {"tools": [], "commands": ["deploy"]}, "timeout_s": 600}
    session_id = (await client.create(task, model=SMALL, approval=approval, compaction={"policy": "seed-reactive"}))[
        "id"
    ]
    await client.until_idle(session_id)
    await open_session(page, session_id)
    await expect(head(page)).to_contain_text(re.compile(r"4 steps[\d.]+ m?s"))
    await expect(page.get_by_role("heading", level=1)).to_have_attribute("title", task)
    await expect(head(page).get_by_role("meter", name="Context")).to_have_attribute(
        "aria-valuetext", re.compile(r"[\d,]+ of 4,726 usable tokens")
    )
    unseen = page.locator(".row-body.unseen")
    await expect(unseen).to_have_count(0)
    round_number = (await compacted(client, session_id)).data["round"]

    # What happens while the page is open looks the same as after a reload.
    for _ in range(2):
        await page.get_by_role("feed", name="Messages").press("Home")
        rule = page.locator(f'[data-round="{round_number}"]')
        await expect(rule).to_contain_text(re.compile(r"Compacted [\d.]+K → [\d.]+K"))
        await expect(unseen.first).to_contain_text("Part 1.")
        await expect(messages(page, "user").first.locator(".unseen")).to_have_count(0)
        await expect(page.get_by_text("Not in the model's context").first).to_be_attached()
        await button(rule, "read summary").click()
        await expect(rule).to_contain_text("The first steps of the task.")
        await page.reload()
        await expect(messages(page).last).to_be_visible()

    await _the_chart_opens_its_points(page, session_id)
    await open_session(page, session_id)
    await client.post(session_id, "Go on.")
    await client.wait_for(session_id, lambda event: event.type == "approval.requested")
    await client.post(session_id, "And tell me.", "follow_up")
    await expect(page.get_by_role("region", name="Pending messages")).to_contain_text("And tell me.")
    for width, height in ((1280, 720), (390, 844)):
        await page.set_viewport_size({"width": width, "height": height})
        await expect(button(page, "Approve")).to_be_in_viewport(ratio=1)
        command_box = page.get_by_role("region", name="command", exact=True)
        await expect(command_box).to_be_in_viewport(ratio=1)
        assert await command_box.evaluate(IS_ON_TOP)
        await expect(button(page, "Cancel run")).to_be_in_viewport(ratio=1)
        assert await page.get_by_role("feed", name="Messages").evaluate(SHARE) >= 0.6
    await client.http.post(f"/v1/sessions/{session_id}/cancel")


async def test_an_approval_takes_the_room_that_a_short_conversation_leaves(
    page: Page, site: Site, client: Client
) -> None:
    deploy = command("make deploy STAGE=production && curl --fail https://shop.example.com/health && echo deployed")
    task = site.task("Deploy", Reply(Text("Deploying."), deploy))
    session_id = (await client.create(task, approval={"policy": "always", "timeout_s": 600}))["id"]
    await page.set_viewport_size({"width": 390, "height": 844})
    await open_session(page, session_id)
    await expect(button(page, "Add reason")).to_be_in_viewport(ratio=1)
    assert await button(page, "Add reason").evaluate(IS_ON_TOP)
    await expect(messages(page, "user")).to_be_in_viewport(ratio=1)
    await client.http.post(f"/v1/sessions/{session_id}/cancel")


async def _the_chart_opens_its_points(page: Page, session_id: str) -> None:
    """A click on a step opens its request below the chart, and a compaction opens next to it."""
    await open_session(page, session_id, "context")
    steps = page.get_by_role("region", name="Context over steps")
    await expect(steps).to_contain_text("when it nears the usable limit, Palimpsest shortens what is sent")
    chart = page.get_by_role("group", name="Chart of context tokens")
    canvas = chart.locator(".u-over").first
    box = await canvas.bounding_box()
    assert box is not None
    # Four steps, with half a step of margin at both ends, and the compaction after the last one.
    await canvas.click(position={"x": box["width"] * 1.5 / 5.5, "y": box["height"] / 2})
    seen = page.get_by_role("region", name="Model's view vs. full history")
    await expect(seen).to_contain_text("Step 2 sent")
    await expect(seen.get_by_role("heading", level=2)).to_be_focused()

    await chart.press("End")
    text = page.locator(".chart-text")
    while "Compaction 1" not in await text.inner_text():
        await chart.press("ArrowLeft")
    await chart.press("Enter")
    selected = page.get_by_role("region", name="Selected in the chart")
    await expect(selected.get_by_role("heading", name="Compaction 1")).to_be_focused()
    await expect(selected).to_contain_text("The first steps of the task.")
    panel, drawn = await selected.bounding_box(), await chart.bounding_box()
    assert panel is not None
    assert drawn is not None
    assert panel["x"] > drawn["x"] + drawn["width"]
    await button(selected, "Close").click()
    await expect(selected).to_be_hidden()
