"""A user's main path through a session, from the task to its files, with each step asserted on the page."""

from __future__ import annotations

import asyncio
import io
import re
import tarfile
from pathlib import Path

from playwright.async_api import Download, Page, expect

from tests.behavior.harness import Client, command
from tests.dashboard import IN_BROWSER
from tests.dashboard.places import badge, button, head, messages, same_as_afterwards, say, session_id, tab
from tests.dashboard.site import SMALL, Site
from tests.provider import Gate, Hang, Reasoning, Reply, Text

pytestmark = [*IN_BROWSER]

DEPLOY = "echo deployed to production | tee deployed.txt"

WIDTH = "bar => bar.getBoundingClientRect().width"
"""In fractions of a pixel."""


def _padding(step: int) -> Reply:
    """A step whose call fills part of the small window; outputs would be cleared before a compaction is needed."""
    return Reply(Text(f"Reading part {step}."), command(f"true # {str(step) * 3500}"))


async def test_from_a_task_to_its_files(page: Page, site: Site, client: Client) -> None:
    await client.create()  # so that this is no first visit
    task = site.task(
        "Deploy the shop",
        Reply(Reasoning("Which shop?"), Text("I look around. ", 4), Gate("shop-1"), Text("Found.", 2), command("ls /")),
        Reply(Text("Deploying."), command(DEPLOY)),
        Reply(Text("Now the long part", 3), Hang()),
        *(_padding(step) for step in range(1, 7)),
        Reply(Text("The shop is **deployed**.")),
    )

    await _create(page, task)
    await expect(messages(page, "user")).to_contain_text("Deploy the shop")
    await expect(messages(page, "assistant")).to_contain_text("I look around.")
    await expect(badge(page, "running")).to_be_visible()

    await _steer(page, site)
    await _approve(page)
    await _cancel_and_resume(page)

    await expect(badge(page, "completed")).to_be_visible()
    await expect(messages(page, "assistant").last.locator("strong")).to_have_text("deployed")
    await same_as_afterwards(page)
    await _view_and_revert_the_compaction(page)
    await _download_the_files(page)
    await _same_usage_afterwards(page, client)


async def _create(page: Page, task: str) -> None:
    await page.goto("/")
    await button(page, "New session").click()
    form = page.get_by_role("form", name="New session")
    await form.get_by_label("Task").fill(task)
    await form.get_by_label("Model", exact=True).select_option(SMALL)
    await form.get_by_text("More", exact=True).click()
    await form.get_by_label("Calls that need approval").select_option("Some tools and commands")
    await form.get_by_label("Commands that need approval").fill("deployed")
    await button(form, "Start").click()


async def _steer(page: Page, site: Site) -> None:
    """A message sent in the middle of a step is shown as pending and delivered before the next step."""
    await site.provider.reached("shop-1")
    await say(page, "Only the shop in the north.")
    pending = page.get_by_role("region", name="Pending messages")
    await expect(pending).to_contain_text("Only the shop in the north.")
    site.provider.open("shop-1")
    await expect(messages(page, "user").last).to_contain_text("Only the shop in the north.")
    await expect(pending).to_be_hidden()


async def _approve(page: Page) -> None:
    """The command is shown in full with the time left, and runs once it is approved."""
    approval = page.get_by_role("article").filter(has_text="Run execute_command?")
    await expect(approval).to_contain_text(DEPLOY)
    await expect(approval.get_by_role("timer")).to_have_text(re.compile(r"auto-deny in \d+ (min|s)"))
    await expect(badge(page, "awaiting approval")).to_be_visible()
    await button(approval, "Approve").click()
    await expect(approval).to_be_hidden()
    deploying = messages(page, "assistant").filter(has_text="Deploying.")
    await expect(deploying.locator("[data-status=completed]")).to_be_visible()
    await deploying.get_by_role("button", name="deployed.txt").click()
    await expect(deploying.get_by_role("region", name="Output")).to_contain_text("deployed to production")
    await deploying.get_by_role("button", name="deployed.txt").click()


async def _cancel_and_resume(page: Page) -> None:
    """The output so far is kept, and the run continues after it."""
    await expect(messages(page, "assistant").last).to_contain_text("Now the long part")
    await button(page, "Cancel run").click()
    await expect(badge(page, "cancelled")).to_be_visible()
    await expect(messages(page, "assistant").filter(has_text="Now the long part")).to_be_visible()
    await button(page, "Resume").click()
    await expect(badge(page, "cancelled")).to_be_hidden()


async def _view_and_revert_the_compaction(page: Page) -> None:
    await tab(page, "Context").click()
    chart = page.get_by_role("group", name="Chart of context tokens")
    await chart.focus()
    text = page.locator(".chart-text")
    await expect(text).to_contain_text("Step")
    while "Compaction" not in (before := await text.inner_text()):
        await chart.press("ArrowLeft")
        await expect(text).not_to_have_text(before)
    await expect(text).to_have_text(re.compile(r"Compaction \d+: [\d,]+ → [\d,]+ tokens, \d+% less; .* Cost "))
    await chart.press("Enter")
    summary = page.get_by_role("region", name=re.compile("Summary of compaction"))
    await expect(summary).to_contain_text("The first steps of the task.")
    replaced = page.get_by_role("region", name=re.compile("Messages replaced by compaction \\d+"))
    await expect(replaced).to_contain_text("Reading part")

    revert = page.get_by_role("button", name=re.compile("^Revert compaction"))
    await revert.click()
    await button(page.get_by_role("dialog"), "Revert").click()
    await expect(head(page).get_by_role("meter", name="Context")).to_be_visible()
    await expect(page.get_by_role("button", name=re.compile("Compaction \\d+ reverted"))).to_be_visible()
    await _same_compactions_afterwards(page)


async def _same_compactions_afterwards(page: Page) -> None:
    """Compactions received as live events are shown as on a freshly opened page, except for their age."""
    fresh = await page.context.new_page()
    await fresh.goto(page.url)
    name = "Compactions and cleared outputs"
    live = re.escape(await page.get_by_role("region", name=name).inner_text())
    ageless = re.sub(r"\d+\\ sec\\\.\\ ago|now", ".*", live)
    await expect(fresh.get_by_role("region", name=name)).to_have_text(re.compile(ageless), use_inner_text=True)
    await fresh.close()


async def _download_the_files(page: Page) -> None:
    await tab(page, "Files").click()
    await page.get_by_role("treeitem", name="deployed.txt").click()
    await expect(page.get_by_role("region", name="File")).to_contain_text("deployed to production")
    async with page.expect_download() as one:
        await page.get_by_role("link", name="Download", exact=True).click()
    assert await _content(await one.value) == b"deployed to production\n"
    async with page.expect_download() as everything:
        await page.get_by_role("link", name="Download all").click()
    with tarfile.open(fileobj=io.BytesIO(await _content(await everything.value))) as tar:
        assert any(name.endswith("deployed.txt") for name in tar.getnames())


async def _same_usage_afterwards(page: Page, client: Client) -> None:
    """The usage counted from live events is the same as the server's."""
    usage = (await client.session(session_id(page)))["usage"]
    await tab(page, "Usage").click()
    fresh = await page.context.new_page()
    await fresh.goto(page.url)
    for each in (page, fresh):
        await expect(each.get_by_role("main", name="Usage")).to_contain_text(_short(usage["output_tokens"]))
    live = await page.get_by_role("main", name="Usage").inner_text()
    await expect(fresh.get_by_role("main", name="Usage")).to_have_text(live, use_inner_text=True)
    await _shows_where_the_time_went(fresh)


async def _shows_where_the_time_went(page: Page) -> None:
    """The second step waited for its approval, unlike the first."""
    times = page.get_by_role("region", name="Time by step").get_by_role("row")
    for step, has_waited in ((1, False), (2, True)):
        row = times.filter(has=page.get_by_role("rowheader", name=str(step), exact=True))
        await expect(row.get_by_role("cell").nth(3)).to_have_text(re.compile(r"^\d.* m?s$" if has_waited else "^$"))
        assert (await row.locator(".usage-bar .waiting").evaluate(WIDTH) > 0) == has_waited
        assert await row.locator(".usage-bar .model").evaluate(WIDTH) > 0


def _short(tokens: int) -> str:
    return str(tokens) if tokens < 1_000 else f"{tokens / 1_000:.3g}K"


async def _content(download: Download) -> bytes:
    path = await download.path()
    return await asyncio.to_thread(Path(path).read_bytes)
