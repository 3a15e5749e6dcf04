"""Webhooks on the page: created, tested, edited and deleted, with their deliveries."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Browser, Page, expect

from tests.behavior.harness import Client
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import watched
from tests.dashboard.conftest import ServeSite
from tests.dashboard.places import button
from tests.dashboard.site import Site
from tests.provider import Reply, Text
from tests.receiver import Receiver, receiving

pytestmark = [*IN_BROWSER]


@pytest.mark.slow
async def test_a_webhook_is_created_tested_edited_and_deleted(own_site: ServeSite, browser: Browser) -> None:
    with own_site(PALIMPSEST_WEBHOOK_NETWORKS="127.0.0.0/8") as site, receiving() as receiver:
        receiver.answer = lambda received: 410 if received.body["type"] == "session.idle" else 204
        async with watched(browser, site.url) as (context, faults), Client(site.url) as client:
            faults.allow.append("status of 422")
            page = await context.new_page()
            await page.goto("/#/settings")
            secret = await _create(page, receiver)
            webhook = page.get_by_role("list", name="Webhooks").get_by_role("listitem")
            await button(webhook, f"Test {receiver.url}").click()
            deliveries = page.get_by_role("region", name="Deliveries", exact=True).get_by_role("row")
            await expect(deliveries.nth(1)).to_have_text(re.compile(r"webhook\.test.*delivered.*204", re.DOTALL))
            receiver.verify(secret)
            await _disabled_and_enabled(page, site, client, receiver)

            await button(webhook, f"Actions for {receiver.url}").click()
            await page.get_by_role("menuitem", name="Edit").click()
            dialog = page.get_by_role("dialog", name="Edit webhook")
            await dialog.get_by_label("Events", exact=True).select_option("All events")
            await button(dialog, "Save").click()
            await expect(webhook).to_contain_text("all events of all sessions")
            await button(webhook, f"Actions for {receiver.url}").click()
            await page.get_by_role("menuitem", name="Delete").click()
            await button(page.get_by_role("dialog"), "Delete").click()
            await expect(page.get_by_text("No webhooks yet.")).to_be_visible()
            assert (await client.get("/v1/webhooks"))["items"] == []


async def _create(page: Page, receiver: Receiver) -> str:
    """Creates a webhook, after a name of an event that is refused; its secret is shown once."""
    await button(page, "New webhook").click()
    dialog = page.get_by_role("dialog", name="New webhook")
    await dialog.get_by_label("URL").fill(receiver.url)
    await dialog.get_by_label("Events").select_option("Some events…")
    names = dialog.get_by_label("Event names")
    await names.fill("session.idle\nnothing.*")
    await button(dialog, "Create").click()
    await expect(names).to_have_accessible_description(re.compile("Input should be the name of a durable event"))
    await names.fill("session.idle\nstep.*")
    await button(dialog, "Create").click()
    shown = page.get_by_role("dialog", name="Webhook created")
    secret = await shown.get_by_label("Signing secret").input_value()
    # A click outside must not lose it.
    await page.mouse.click(4, 4)
    await expect(shown).to_be_visible()
    await button(shown, "Done").click()
    await expect(page.get_by_role("list", name="Webhooks")).to_contain_text("session.idle, step.* of all sessions")
    await page.reload()
    await expect(page.get_by_role("list", name="Webhooks")).to_contain_text(receiver.url)
    assert secret not in await page.content()
    return secret


async def _disabled_and_enabled(page: Page, site: Site, client: Client, receiver: Receiver) -> None:
    """A receiver that refuses an event is shown as disabled, with the reason; the event is sent again by hand."""
    made = await client.create(site.task("Say it", Reply(Text("Said."))))
    await client.until_idle(made["id"])
    await asyncio.to_thread(receiver.wait, lambda r: any(each.body["type"] == "session.idle" for each in r.requests))
    await button(page, "Refresh").click()
    webhook = page.get_by_role("list", name="Webhooks").get_by_role("listitem")
    await expect(webhook).to_contain_text(re.compile("disabled.*410", re.DOTALL))
    failed = page.get_by_role("row").filter(has_text="session.idle")
    await expect(failed).to_have_text(re.compile("failed.*410", re.DOTALL))
    receiver.answer = lambda _: 204
    await button(webhook, "Enable").click()
    await expect(webhook).not_to_contain_text("Disabled")
    await button(page, "Refresh").click()
    await expect(failed).to_have_text(re.compile("delivered.*204", re.DOTALL))
    await button(failed, "Send again: session.idle").click()
    await asyncio.to_thread(
        receiver.wait, lambda r: [each.body["type"] for each in r.accepted].count("session.idle") == 2
    )
