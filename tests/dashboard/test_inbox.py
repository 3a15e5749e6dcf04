"""The list as an inbox: what needs the user, what runs and what is done; notifications; the keyboard."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import BrowserContext, Locator, Page, expect

from tests.behavior.checks import following
from tests.behavior.harness import Client, command
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import module
from tests.dashboard.places import button, composer, head
from tests.dashboard.site import Site, link
from tests.provider import Gate, HttpError, Reply, Text

pytestmark = [*IN_BROWSER]

ALWAYS = {"policy": "always", "timeout_s": None}
RECORD_NOTICES = """
const notices = [];
window.Notification = class {
  static permission = "granted";
  static requestPermission = async () => "granted";
  constructor(title, options) {
    notices.push(`${title}: ${options.body}`);
    document.documentElement.dataset.notices = notices.join("; ");
  }
  close() {}
};
"""


def section(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=re.compile(f"^{name}"))


def row(page: Page, session_id: str) -> Locator:
    return page.locator(f'[data-session-id="{session_id}"]')


@pytest.mark.slow
async def test_the_list_shows_what_needs_the_user_and_what_each_session_does(
    page: Page, site: Site, client: Client
) -> None:
    failing = await client.create(site.task("inbox: fails", HttpError(402)))
    await client.until_idle(failing["id"])
    done = await client.create(site.task("inbox: is done", Reply(Text("All good."))))
    await client.until_idle(done["id"])
    running = await client.create(site.task("inbox: runs", Reply(Text("x"), Gate("inbox-1"), command("sleep 9"))))
    answers = Reply(command("echo two")), Reply(Text("x"), Gate("inbox"), Text("y"))
    asks = await client.create(site.task("inbox: asks", *answers), approval=ALWAYS)
    async with following(client, asks["id"]) as follower:
        await follower.type("approval.requested")

    await page.goto("/#/?q=inbox:")
    needs, runs, ended = section(page, "Needs you"), section(page, "Running"), section(page, "Done")
    await expect(needs.locator(".session-row")).to_have_count(2)
    await expect(runs.locator(".session-row")).to_have_text(re.compile("inbox: runs.*Thinking…", re.DOTALL))
    await expect(ended.locator(".session-row")).to_contain_text("All good.")
    await expect(page).to_have_title(re.compile(r"^\([0-9]+\) Sessions"))
    # The call that the model makes is shown without a reload.
    site.provider.open("inbox-1")
    await expect(row(page, running["id"])).to_contain_text("Run sleep 9")

    # The list scrolls in the page; the window does not, or it would show nothing.
    await page.set_viewport_size({"width": 1280, "height": 400})
    assert await page.evaluate("document.documentElement.scrollHeight - innerHeight") == 0
    await page.set_viewport_size({"width": 1280, "height": 800})

    # Approved by keyboard, from the row that has the focus.
    await expect(row(page, asks["id"])).to_contain_text("echo two")
    await row(page, asks["id"]).locator("a").focus()
    await page.keyboard.press("a")
    await expect(runs).to_contain_text("inbox: asks")
    site.provider.open("inbox")
    await expect(ended).to_contain_text("inbox: asks")

    # A failure that was seen no longer needs anyone.
    await row(page, failing["id"]).locator("a").click()
    await expect(head(page)).to_contain_text("failed")
    await page.go_back()
    await expect(ended).to_contain_text("inbox: fails")
    await expect(needs).to_be_hidden()

    # The address has the filter and the search.
    await page.get_by_label("Status").select_option("Done")
    await expect(page).to_have_url(re.compile("status=idle"))
    await page.reload()
    await expect(page.get_by_role("searchbox")).to_have_value("inbox:")
    await expect(page.locator(".session-row")).to_have_count(3)
    assert (await client.http.post(f"/v1/sessions/{running['id']}/cancel")).status_code == 202
    await client.until_idle(running["id"])


async def test_a_hidden_page_notifies_and_counts_what_has_ended(
    context: BrowserContext, page: Page, site: Site, client: Client
) -> None:
    await context.add_init_script(RECORD_NOTICES)
    await page.goto("/#/settings")
    await page.get_by_label("Notify me when").check()
    await page.reload()
    await expect(page.get_by_label("Notify me when")).to_be_checked()
    await expect(page.get_by_label("Play a sound")).not_to_be_checked()

    task = site.task("notice", Reply(Text("x"), Gate("notice"), command("echo wait")), Reply(Text("Done.")))
    made = await client.create(task, approval=ALWAYS)
    await page.goto("/#/?q=notice")
    await expect(row(page, made["id"])).to_contain_text("Thinking…")
    before = await page.title()
    await page.evaluate("document.hasFocus = () => false")
    site.provider.open("notice")
    shown = page.locator("html")
    await expect(shown).to_have_attribute("data-notices", f"{task}: Waiting for approval: Run echo wait")
    await button(row(page, made["id"]), "Approve").click()
    await expect(shown).to_have_attribute("data-notices", re.compile(rf"; {re.escape(task)}: Completed$"))
    await expect(page).not_to_have_title(before)
    await page.evaluate("document.hasFocus = () => true; dispatchEvent(new Event('focus'))")
    # Those that wait for the user still count; one may be left over from another test.
    waiting = len((await client.get("/v1/sessions", status="needs_attention"))["items"])
    await expect(page).to_have_title(f"({waiting}) Sessions · Palimpsest" if waiting else "Sessions · Palimpsest")


async def test_a_run_that_ended_before_it_began_is_no_news(bare: Page) -> None:
    """Its message was withdrawn."""
    counts = """async () => {
      const { list } = await import("/static/state/sessions.js");
      const { waiting } = await import("/static/core/title.js");
      document.hasFocus = () => false;
      const before = waiting.value;
      const countAfter = (session) => {
        for (const watch of list.watchers) watch({ status: "idle", ...session });
        return waiting.value - before;
      };
      const counts = [countAfter({ id: "withdrawn", outcome: null }), countAfter({ id: "done", outcome: "completed" })];
      delete document.hasFocus;
      dispatchEvent(new Event("focus"));
      return counts;
    }"""
    assert await module(bare, "state/notices.js", counts) == [0, 1]


async def test_keys_open_the_help_the_palette_and_sessions_but_not_while_the_user_types(
    page: Page, site: Site, client: Client
) -> None:
    made = [await client.create(site.task(f"keys {name}", Reply(Text("ok")))) for name in ("one", "two")]
    for each in made:
        await client.until_idle(each["id"])
    await page.goto("/#/?q=keys")
    await expect(page.locator(".session-row")).to_have_count(2)
    await page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("Next session in the list")).to_be_visible()
    await page.keyboard.press("n")  # not while a dialog is open
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()

    for key, place in (("j", 0), ("j", 1), ("j", 1), ("k", 0)):
        await page.keyboard.press(key)
        await expect(page.locator(".session-row a").nth(place)).to_be_focused()
    await page.keyboard.press("/")
    await expect(page.get_by_role("searchbox")).to_be_focused()
    await page.keyboard.press("End")
    await page.keyboard.type("n?")  # text, and no shortcuts
    await expect(page.get_by_role("searchbox")).to_have_value("keysn?")
    await expect(dialog).to_be_hidden()
    await page.get_by_role("searchbox").fill("keys")
    await page.get_by_role("heading", level=1).click()

    await page.keyboard.press("n")
    form = page.get_by_role("form", name="New session")
    await expect(form.get_by_label("Task")).to_be_focused()
    await page.keyboard.press("Control+k")  # the user types
    await expect(dialog).to_be_hidden()
    await button(form, "Cancel").click()

    await page.keyboard.press("Control+k")
    await expect(dialog.get_by_role("combobox")).to_be_focused()
    await page.keyboard.type("keys one")
    await expect(dialog.get_by_role("option")).to_have_count(1)
    await page.keyboard.press("Enter")
    await expect(head(page)).to_contain_text("keys one")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("show files")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/files$"))

    # Single keys can be turned off, for speech input.
    await page.goto("/#/settings")
    await page.get_by_label("Single-key shortcuts").uncheck()
    await page.get_by_role("heading", level=1).click()
    await page.keyboard.press("?")
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("dialog", name="Go to")).to_be_visible()


@pytest.mark.slow
async def test_a_search_of_the_session_goes_to_the_message_and_the_address_names_it(
    page: Page, site: Site, client: Client
) -> None:
    steps = [Reply(Text(f"Part {number}: nothing here."), command(f"echo {number}")) for number in range(30)]
    steps[3] = Reply(Text("The needle is in part three."), command("seq 99 > numbers.txt"))
    made = await client.create(site.task("Look for it", *steps, Reply(Text("Finished."))))
    await client.until_idle(made["id"])
    await page.goto(link(made["id"]))
    await expect(page.get_by_text("Finished.").first).to_be_visible()
    await page.keyboard.press("m")
    await page.keyboard.type("m")
    await expect(composer(page)).to_have_value("m")
    await page.get_by_role("heading", level=1).click()
    await page.keyboard.press("/")
    await page.keyboard.type("needle")
    hit = page.get_by_role("dialog").get_by_role("option").first
    await expect(hit.locator("mark")).to_have_text("needle")
    await page.keyboard.press("Enter")
    marked = page.locator(".row.linked")
    await expect(marked).to_contain_text("The needle is in part three.")
    await expect(marked).to_be_in_viewport()
    await expect(page).to_have_url(re.compile("message=[0-9]+$"))
    await page.reload()
    await expect(marked).to_be_in_viewport()
    await expect(marked).to_contain_text("The needle is in part three.")

    await page.goto(link(made["id"], "files?path=numbers.txt&line=88"))
    await expect(page.locator(".line.linked")).to_have_text(re.compile(r"88\s*88"))
    await expect(page.locator(".line.linked")).to_be_in_viewport()
    await button(page, "Close").click()
    await expect(page).to_have_url(re.compile("/files$"))
    await page.goto(link(made["id"], "events?types=session.idle,no.event"))
    await expect(page.locator(".event-row")).to_have_count(1)
    await expect(page.locator(".event-brief")).to_have_text(re.compile('^{"outcome":'))
    await page.get_by_label("Filter events").fill("nothing")
    await expect(page).to_have_url(re.compile("q=nothing"))


ORDER = """({ ordered, place, matches }) => {
  const session = (id, at, status = "idle", more = {}) => ({ id, status, updated_at: at, ...more });
  const ids = (sessions) => sessions.map(({ id }) => id).join("");
  let list = ordered([session("a", "1"), session("b", "3", "running"), session("c", "2"), session("c", "2")]);
  const seen = [ids(list)];
  const change = (...args) => { list = place(list, session(...args), true); seen.push(ids(list)); };
  change("c", "4"); // changed last
  change("b", "5", "running"); // runs on, and stays
  change("b", "6"); // has ended
  change("d", "0"); // older than all that are loaded
  change("e", "0", "running");
  const failed = session("f", "1", "idle", { outcome: "failed", unseen: true, title: "À Bug" });
  const kept = ["needs_attention", "idle", "running"].filter((status) => matches(failed, { status, q: "À bUG" }));
  return [seen, kept, matches({ ...failed, unseen: false }, { status: "needs_attention", q: "" })];
}"""


async def test_sessions_move_to_the_front_when_they_change_but_not_while_they_run(bare: Page) -> None:
    seen, kept, is_seen_kept = await module(bare, "state/session_order.js", ORDER)
    assert seen == ["bca", "cba", "cba", "bca", "bca", "bcae"]
    assert kept == ["needs_attention", "idle"]
    assert not is_seen_kept
    parsed = await module(bare, "core/router.js", "({ parse }) => parse('#/sessions/a%2Fb/files?path=x%20y&line=3')")
    assert parsed == {"page": "session", "id": "a/b", "view": "files", "query": {"path": "x y", "line": "3"}}
