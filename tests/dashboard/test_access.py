"""Accessibility: no axe violations in light and dark and on a phone, and full use by keyboard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from tests.behavior.harness import Client, command
from tests.behavior.rounds import compacted
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import DESKTOP, PHONE, watched
from tests.dashboard.conftest import ServeSite
from tests.dashboard.places import badge, button, composer, messages, open_session, tab
from tests.dashboard.site import SMALL, Site, link
from tests.mcp_servers import PIXEL
from tests.provider import Gate, Hang, Reasoning, Reply, Text, ToolCall

pytestmark = [*IN_BROWSER]

AXE = (Path(__file__).parent / "vendor" / "axe.js").read_text("utf-8")
VIOLATIONS = """async (rules) => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"], ...rules });
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) =>
      `${html.slice(0, 300)} ${failureSummary.slice(0, 300)}`).join(" | ")}`);
}"""
ALL_RULES: Mapping[str, Any] = {}
OF_COLORS: Mapping[str, Any] = {"runOnly": ["color-contrast"]}
"""In the dark, the elements are the same as in the light."""
OF_ALL_ELSE: Mapping[str, Any] = {"rules": {"color-contrast": {"enabled": False}}}
"""On a phone, the colors are the same as on a desktop."""
TOO_WIDE = """() => {
  const { scrollWidth, clientWidth } = document.documentElement;
  const isScrolled = (element) => {
    for (let at = element.parentElement; at; at = at.parentElement) {
      if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(at).overflowX)) return true;
    }
    return false;
  };
  const wide = [...document.body.querySelectorAll("*")]
    .filter((element) => element.getBoundingClientRect().right > clientWidth + 1 && !isScrolled(element))
    .map(({ outerHTML }) => outerHTML.slice(0, 150));
  return scrollWidth > clientWidth ? [`${scrollWidth} > ${clientWidth}`, ...wide] : [];
}"""

TEXT = """## What I found

A table, a list and *code*:

| file | lines |
| --- | ---: |
| `app/very/long/path/to/a/file_with_a_name_that_does_not_end.py` | 120 |

1. first, with [a link](https://example.org/)
2. second

```python
def answer() -> int:
    return 42  # a line that is much longer than a telephone is wide, so that it has to scroll within its box
```

> quoted
"""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def full_session(site: Site) -> str:
    """A session with every kind of content; it waits for an approval and has a pending message."""
    task = site.task(
        "Show everything",
        Reply(
            Reasoning("What is everything?"),
            Text(TEXT),
            ToolCall("update_plan", {"items": [{"text": "Look", "status": "completed"}, {"text": "Act"}]}),
            ToolCall("write_file", {"path": "src/answer.py", "content": "def answer() -> int:\n    return 41\n"}),
        ),
        Reply(
            ToolCall("edit_file", {"path": "src/answer.py", "old_text": "41", "new_text": "42"}),
            command("cat src/answer.py; exit 3"),
            ToolCall("read_file", {"path": "missing.py"}),
        ),
        *(Reply(command(f"seq {start} {start + 900}")) for start in (1, 2, 3, 4)),
        Reply(Text("Half is done.")),
        Reply(Text("Now the rest."), command("rm -rf build && make deploy")),
    )
    async with Client(site.url) as client:
        approval = {"policy": {"tools": [], "commands": ["deploy"]}, "timeout_s": 600}
        session_id: str = (
            await client.create(task, model=SMALL, approval=approval, compaction={"policy": "seed-reactive"})
        )["id"]
        await client.until_idle(session_id)
        await compacted(client, session_id)
        image = {"type": "image", "media_type": "image/png", "data": PIXEL}
        await client.http.post(
            f"/v1/sessions/{session_id}/queue", json={"content": [{"type": "text", "text": "Go on."}, image]}
        )
        await client.wait_for(session_id, lambda event: event.type == "approval.requested")
        await client.post(session_id, "And tell me when it is over.", "follow_up")
    return session_id


async def _violations(page: Page, rules: Mapping[str, Any] = ALL_RULES) -> list[str]:
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE)
    return [*await page.evaluate(VIOLATIONS, rules), *await page.evaluate(TOO_WIDE)]


async def _check_all_views(page: Page, session_id: str, rules: Mapping[str, Any]) -> dict[str, list[str]]:
    """The violations in each view, with everything expanded."""
    found: dict[str, list[str]] = {}
    await page.goto("/")
    await expect(page.locator(f'[data-session-id="{session_id}"]')).to_be_visible()
    await button(page, "New session").click()
    await page.get_by_text("More", exact=True).click()
    found["list"] = await _violations(page, rules)
    await page.locator("summary").filter(has_text="Secrets").click()
    await button(page, "Add secret").click()
    await page.get_by_role("radio", name="Git repository").check()
    found["repository"] = await _violations(page, rules)
    await page.get_by_role("radio", name="Folder or archive").check()
    found["files to bring in"] = await _violations(page, rules)
    await open_session(page, session_id)
    await expect(page.get_by_role("region", name="Pending messages")).to_be_visible()
    found["conversation"] = await _violations(page, rules)
    await page.get_by_role("feed", name="Messages").press("Home")
    folds = page.locator(".call button[aria-expanded=false], .reasoning button[aria-expanded=false]")
    while await folds.count():
        await folds.first.click()
    found["conversation, open"] = await _violations(page, rules)
    await button(page, "Actions").click()
    await page.get_by_role("menuitem", name="Settings").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    found["dialog"] = await _violations(page, rules)
    await page.keyboard.press("Escape")
    await tab(page, "Context").click()
    await page.get_by_role("button", name="Compaction 1").first.click()
    await button(page, "Compact now…").click()
    await expect(page.get_by_role("region", name="Summary of compaction 1")).to_be_visible()
    found["context"] = await _violations(page, rules)
    await tab(page, "Files").click()
    await page.get_by_role("treeitem", name="src").click()
    await page.get_by_role("treeitem", name="answer.py").click()
    await expect(page.get_by_role("region", name="File")).to_contain_text("return 42")
    found["files"] = await _violations(page, rules)
    await tab(page, "Changes").click()
    await expect(page.get_by_role("region", name="src/answer.py")).to_contain_text("return 42")
    found["changes"] = await _violations(page, rules)
    await button(page, "Restore…").click()
    await expect(page.get_by_role("region", name="Files that change")).to_be_visible()
    found["restore"] = await _violations(page, rules)
    await page.keyboard.press("Escape")
    for view in ("Usage", "Events"):
        await tab(page, view).click()
        await expect(page.get_by_role("main", name=view)).not_to_contain_text("Loading")
        found[view] = await _violations(page, rules)
    await page.goto("/#/usage")
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    found["all usage"] = await _violations(page, rules)
    await page.goto("/#/settings")
    await button(page, "New webhook").click()
    found["settings"] = await _violations(page, rules)
    return {view: violations for view, violations in found.items() if violations}


@pytest.mark.parametrize(
    ("options", "rules"),
    [
        ({"viewport": DESKTOP, "color_scheme": "light"}, ALL_RULES),
        pytest.param({"viewport": DESKTOP, "color_scheme": "dark"}, OF_COLORS, marks=pytest.mark.extended),
        pytest.param(
            {"viewport": PHONE, "color_scheme": "light", "has_touch": True}, OF_ALL_ELSE, marks=pytest.mark.extended
        ),
    ],
    ids=["light", "dark", "phone"],
)
@pytest.mark.slow
async def test_no_view_has_a_serious_violation(
    site: Site, browser: Browser, full_session: str, options: dict[str, Any], rules: Mapping[str, Any]
) -> None:
    # The page's Content-Security-Policy blocks how axe reads style sheets.
    async with watched(browser, site.url, bypass_csp=True, reduced_motion="reduce", **options) as (context, _):
        assert await _check_all_views(await context.new_page(), full_session, rules) == {}


@pytest.mark.extended
async def test_these_tests_detect_violations(site: Site, browser: Browser) -> None:
    """Detects a button without a name, text with low contrast, and a box that is too wide."""
    async with watched(browser, site.url, bypass_csp=True, viewport=PHONE) as (context, _):
        page = await context.new_page()
        await page.goto("/")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await page.evaluate("""() => {
          const main = document.querySelector("main");
          main.append(document.createElement("button"));
          const pale = document.createElement("p");
          pale.textContent = "Pale";
          Object.assign(pale.style, { color: "#bbb", background: "#fff" });
          document.body.append(pale);
          const wide = document.createElement("div");
          Object.assign(wide.style, { width: "900px", height: "1px" });
          document.body.append(wide);
        }""")
        found = " ".join(await _violations(page))
    assert all(word in found for word in ("button-name", "color-contrast", "> 390"))


async def _tab_to(page: Page, target: Locator) -> None:
    """Presses Tab until the target has the focus."""
    await expect(target).to_be_visible()
    for _ in range(80):
        if await target.evaluate("(element) => element === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"{target} cannot be reached by Tab")


async def _press(page: Page, target: Locator, key: str = "Enter") -> None:
    await _tab_to(page, target)
    await page.keyboard.press(key)


@pytest.mark.extended
async def test_everything_can_be_done_by_keyboard(page: Page, site: Site, client: Client) -> None:
    await client.create()  # so that this is no first visit
    task = site.task(
        "By keyboard",
        Reply(Text("I begin."), Gate("keys-1"), command("echo deployed")),
        *(Reply(command(f"seq {start} {start + 900}")) for start in (1, 2, 3)),
        Reply(Text("Waiting."), Hang()),
    )
    await page.goto("/")
    await _press(page, button(page, "New session"))
    form = page.get_by_role("form", name="New session")
    await _tab_to(page, form.get_by_label("Task"))
    await page.keyboard.type(task)
    await _tab_to(page, form.get_by_label("Model", exact=True))
    await page.keyboard.type(SMALL)
    await _press(page, form.locator("summary").filter(has_text="More"))
    await _tab_to(page, form.get_by_label("Calls that need approval"))
    await page.keyboard.type("Some")
    await _tab_to(page, form.get_by_label("Commands that need approval"))
    await page.keyboard.type("deployed")
    await page.keyboard.press("Control+Enter")

    await expect(messages(page, "assistant")).to_contain_text("I begin.")
    await _tab_to(page, composer(page))
    await page.keyboard.type("Hurry up.")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Pending messages")).to_contain_text("Hurry up.")
    site.provider.open("keys-1")

    await _press(page, button(page.get_by_role("article").filter(has_text="Run execute_command?"), "Approve"))
    await expect(messages(page, "assistant").last).to_contain_text("Waiting.")
    await _press(page, button(page, "Cancel run"))
    await expect(badge(page, "cancelled")).to_be_visible()

    await _press(page, tab(page, "Context"))
    await _press(page, button(page, "Compact now…"))
    await _press(page, button(page, "Compact"))
    await _press(page, page.get_by_role("button", name="Compaction 1").first)
    await _press(page, button(page, "Revert compaction 1"))
    await _press(page, button(page.get_by_role("dialog"), "Revert"))
    await expect(page.get_by_role("button", name="Compaction 1 reverted")).to_be_visible()


@pytest.mark.extended
async def test_the_key_is_entered_once(own_site: ServeSite, browser: Browser) -> None:
    with own_site(PALIMPSEST_API_KEYS="right-key") as site:
        async with watched(browser, site.url, bypass_csp=True) as (context, faults):
            faults.allow.append("status of 40[13]")
            page = await context.new_page()
            await page.goto("/")
            key = page.get_by_label("Key")
            await key.fill("wrong-key")
            await key.press("Enter")
            await expect(page.get_by_role("alert")).to_be_visible()
            assert await _violations(page) == []
            await key.fill("right-key")
            await key.press("Enter")
            await expect(page.get_by_role("heading", name="Welcome")).to_be_visible()
            await page.reload()
            await expect(page.get_by_role("heading", name="Welcome")).to_be_visible()
            assert (await context.cookies())[0]["httpOnly"]
            seen = "() => JSON.stringify([document.cookie, localStorage, sessionStorage])"
            assert "right-key" not in await page.evaluate(seen)
            assert await page.evaluate("() => document.cookie") == ""
            other = await context.new_page()
            await _keeps_the_draft(page, other)
            await button(page, "Sign out").click()
            await expect(key).to_be_visible()
            await page.goto(link("anything"))
            await expect(key).to_be_visible()
            await expect(other.get_by_label("Key")).to_be_visible()
            await expect(other.get_by_label("Task")).to_be_hidden()


async def _keeps_the_draft(page: Page, other: Page) -> None:
    """The page keeps its state when the login expires, and signing in in another tab also signs in this tab."""
    task = page.get_by_label("Task")
    await task.fill("A task that took long to write")
    dialog = await _expire_login(page)
    for _ in range(3):
        await page.keyboard.press("Escape")
    await expect(dialog).to_be_visible()
    assert await _violations(page) == []
    await dialog.get_by_label("Key").fill("right-key")
    await page.keyboard.press("Enter")
    await expect(dialog).to_be_hidden()

    dialog = await _expire_login(page)
    await other.goto("/")
    await other.get_by_label("Key").fill("right-key")
    await other.keyboard.press("Enter")
    await expect(other.get_by_role("heading", name="Welcome")).to_be_visible()
    await expect(dialog).to_be_hidden()
    await expect(task).to_have_value("A task that took long to write")


async def _expire_login(page: Page) -> Locator:
    """Removes the cookie and returns the dialog that the next call opens."""
    await page.context.clear_cookies()
    # Another request of the page may have opened the dialog already: then a click would not reach the form.
    await page.locator("form.create").evaluate("(form) => form.requestSubmit()")
    dialog = page.get_by_role("dialog", name="Sign in")
    await expect(dialog.get_by_label("Key")).to_be_focused()
    return dialog
