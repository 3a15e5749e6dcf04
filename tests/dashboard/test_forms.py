"""Forms that remember and prefill: the settings of new sessions, an approval for the rest of a session, a message to
edit; and the charts of usage."""

from __future__ import annotations

import asyncio
import re

from playwright.async_api import Page, expect

from tests.behavior.harness import Client, command
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import TIMEOUT_S
from tests.dashboard.places import badge, button, composer, messages, open_session, session_id
from tests.dashboard.site import Site
from tests.provider import Reply, Text, ToolCall

pytestmark = [*IN_BROWSER]


async def test_a_new_session_takes_over_the_settings_of_the_one_before(page: Page, site: Site, client: Client) -> None:
    await client.create()  # so that this is no first visit
    await page.goto("/")
    await button(page, "New session").click()
    form = page.get_by_role("form", name="New session")
    groups = form.get_by_label("Model", exact=True).locator("optgroup")
    await expect(groups.last).to_have_attribute("label", re.compile(r"\(no key\)$"))
    await expect(groups.first).not_to_have_attribute("label", re.compile(r"\(no key\)$"))
    await form.get_by_label("Task").fill(site.task("Remember", Reply(Text("ok"))))
    await form.get_by_label("Model", exact=True).select_option("fake-openai/model")
    more = form.locator("summary").filter(has_text="More")
    await more.click()
    await form.get_by_label("Max steps per run").fill("7")
    await button(form, "Start").click()
    await expect(badge(page, "completed")).to_be_visible()
    assert (await client.session(session_id(page)))["limits"]["max_steps"] == 7

    await page.goto("/")
    await page.reload()
    await button(page, "New session").click()
    await expect(form.get_by_label("Model", exact=True)).to_have_value("fake-openai/model")
    await expect(form.get_by_label("Task")).to_have_value("")
    await expect(more).to_contain_text("settings changed")
    await more.click()
    await expect(form.get_by_label("Max steps per run")).to_have_value("7")
    await button(form, "Use the server's settings").click()
    await expect(form.get_by_label("Max steps per run")).to_have_value("")
    await expect(form.get_by_label("Model", exact=True)).to_have_value("")


async def test_a_tool_is_allowed_for_the_rest_of_a_session(page: Page, site: Site, client: Client) -> None:
    write = [ToolCall("write_file", {"path": f"{number}.txt", "content": "x\n"}) for number in range(2)]
    run = ToolCall("execute_command", {"timeout_s": 5, "command": "for i in 1 2; do echo $i; done"})
    task = site.task("Allow", Reply(write[0]), Reply(write[1]), Reply(run), Reply(Text("Done.")))
    rules = {"tools": ["write_file"], "commands": ["echo"]}
    made = await client.create(task, approval={"policy": rules, "timeout_s": 600})
    await open_session(page, made["id"])
    await expect(page.get_by_role("article").locator("figcaption, dt")).to_have_text(["path", "content"])
    await button(page, "Allow write_file for this session").click()

    # The second write has run. What a command does comes first, in color.
    approval = page.get_by_role("article").filter(has_text="Run execute_command?")
    await expect(approval.locator("figcaption, dt").first).to_have_text("command")
    await expect(approval.get_by_role("region", name="command").locator("span").first).to_be_visible()
    await expect(approval.get_by_role("button", name=re.compile("Allow"))).to_be_hidden()
    session = await client.session(made["id"])
    assert session["approval"] == {"policy": {"tools": [], "commands": ["echo"]}, "timeout_s": 600}
    await page.get_by_role("heading", level=1).click()
    async with asyncio.timeout(TIMEOUT_S):
        # A key right after the call has appeared is ignored, as a click is.
        while await approval.is_visible():
            await page.keyboard.press("d")
    await expect(badge(page, "completed")).to_be_visible()
    results = [part for message in await client.messages(made["id"]) for part in message["parts"]]
    statuses = [part["status"] for part in results if part["type"] == "tool_result"]
    assert statuses == ["completed", "completed", "denied"]


async def test_a_message_is_edited_in_a_fork(page: Page, site: Site, client: Client) -> None:
    task = site.task("Begin", Reply(command("echo 1 > kept")), Reply(Text("First.")))
    made = await client.create(task)
    await client.until_idle(made["id"])
    await client.post(made["id"], site.task("Go left", Reply(Text("Left."))))
    await client.until_idle(made["id"])
    await open_session(page, made["id"])
    asked = messages(page, "user").nth(1)
    await button(asked, "Edit").click()
    await expect(page.get_by_text("This is a fork from before the message.")).to_be_visible()
    await expect(composer(page)).to_have_value(re.compile("^Go left"))
    fork = session_id(page)
    assert fork != made["id"]
    assert [message["role"] for message in await client.messages(fork)] == ["user", "assistant", "tool", "assistant"]

    # Before the first message there is nothing to fork.
    await open_session(page, made["id"])
    await button(messages(page, "user").first, "Edit").click()
    await expect(page.get_by_role("form", name="New session").get_by_label("Task")).to_have_value(task)


async def test_usage_has_charts_by_day_and_model(page: Page, site: Site, client: Client) -> None:
    await client.run(site.task("Used", Reply(Text("ok"))))
    await page.goto("/#/usage")
    charts = page.get_by_role("region", name="Last 30 days")
    await charts.get_by_role("radio", name="Tokens").check(force=True)
    await expect(charts.get_by_role("img")).to_have_accessible_name(re.compile("^Tokens by day: [1-9]"))
    await expect(charts.locator(".usage-column")).to_have_count(30)
    heights = "(models) => models.reduce((sum, model) => sum + model.getBoundingClientRect().height, 0)"
    assert await charts.locator(".usage-column").last.locator("span").evaluate_all(heights) > 20
    await expect(charts.get_by_role("list", name="By model")).to_contain_text("fake-openai/model")
