"""Content from models, commands and files is shown as text: no code runs, nothing is loaded, no unsafe link is made."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.behavior.combinations import first_of
from tests.behavior.harness import Client, command
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import Faults
from tests.dashboard.places import badge, messages, open_session, tab
from tests.dashboard.site import Site
from tests.provider import Reasoning, Reply, Text, ToolCall

pytestmark = [*IN_BROWSER]

IMAGE = "<img src=x onerror=\"window.ran='image'\">"
SCRIPT = "<script>window.ran='script'</script>"
PAYLOAD = f"{IMAGE}{SCRIPT}"

MARKDOWN = f"""# {IMAGE}

{SCRIPT}

<iframe srcdoc="{SCRIPT}"></iframe> <svg onload="window.ran='svg'"></svg> <a href="javascript:window.ran='a'">a</a>

[one](javascript:window.ran='link') [two](data:text/html,{SCRIPT}) [three](vbscript:x) [four](JaVaScRiPt:window.ran=1)
<javascript:window.ran='auto'> ![picture](https://elsewhere.example/pixel.png) ![inline](data:image/png;base64,AA)
[good](https://elsewhere.example/page "title") [ref] `{SCRIPT}`

[ref]: javascript:window.ran='ref'

| {IMAGE} | b |
| - | - |
| {SCRIPT} | [x](javascript:window.ran='table') |

```html
{PAYLOAD}
```

```"onmouseover="window.ran='fence'
{PAYLOAD}
```

- [ ] {IMAGE}

&lt;script&gt;window.ran='entity'&lt;/script&gt; \u202egnp.exe\u2066
"""

FILE = "<img src=x onerror=window.ran='name'>.html"
TURNED = "photo_\u202egnp.exe"
COLORS = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2Jafter"

HREFS = "() => [...document.querySelectorAll('a[href]')].map((link) => [link.href, link.target, link.rel])"
FOREIGN = r"""() =>
  [...document.querySelectorAll("img, iframe, object, embed, svg, audio, video, base, meta[http-equiv]")]
  .map((element) => element.outerHTML)
  .filter((html) => !/^<svg class="icon" [-\w ="]+><path d="[-\w. ]+"><\/path><\/svg>$/.test(html))"""
"""Elements that could load or run something, except the page's own icons."""


async def _nothing_ran(page: Page, site: Site) -> None:
    assert await page.evaluate("() => window.ran ?? null") is None
    assert await page.evaluate(FOREIGN) == []
    for href, target, rel in await page.evaluate(HREFS):
        if not href.startswith(f"{site.url}/"):
            assert (href.startswith("https://elsewhere.example/"), target) == (True, "_blank")
            assert {"noreferrer", "noopener"} <= set(rel.split())


async def _open_all(page: Page) -> None:
    """Expands everything in the view."""
    closed = page.get_by_role("main").locator('button[aria-expanded="false"]:not([popovertarget])')
    for _ in range(60):
        if not await closed.count():
            return
        # Not with the mouse: expanded elements may cover others.
        await closed.first.evaluate("(button) => button.click()")


def _answers() -> list[Any]:
    write = f"printf '%s' '{COLORS} {SCRIPT}'; printf 'one\\rtwo \\342\\200\\256x' >&2"
    return [
        Reply(
            Reasoning(f"{PAYLOAD} [x](javascript:window.ran=1)", 3),
            Text(MARKDOWN, 40),
            ToolCall("update_plan", {"items": [{"text": PAYLOAD, "status": "in_progress"}]}, chunks=5),
            ToolCall("write_file", {"path": FILE, "content": f"<html>{PAYLOAD}\u202e</html>"}, chunks=20),
            ToolCall("write_file", {"path": TURNED, "content": PAYLOAD}),
            command(write),
            ToolCall("edit_file", {"path": FILE, "old_text": "<html>", "new_text": f"<html>{IMAGE}"}),
        ),
        Reply(Text(MARKDOWN)),
    ]


@pytest.mark.slow
async def test_hostile_content_is_shown_as_text_in_every_view(page: Page, site: Site, client: Client) -> None:
    made = await client.create(site.task(f"{PAYLOAD} \u202eksat", *_answers()), title=f"{PAYLOAD}\u202eeltit\x1b[31m")
    await open_session(page, made["id"])
    await expect(badge(page, "completed")).to_be_visible()

    await _conversation(page, site)
    await tab(page, "Context").click()
    await expect(page.locator(".chart-text")).to_contain_text("Step")
    await _open_all(page)
    await expect(page.get_by_role("main")).to_contain_text(SCRIPT)
    await _nothing_ran(page, site)
    await _files(page, site)
    await tab(page, "Changes").click()
    await expect(page.get_by_role("region", name="photo_‹U+202E›gnp.exe")).to_contain_text(SCRIPT)
    await _nothing_ran(page, site)
    for view in ("Usage", "Events"):
        await tab(page, view).click()
        await expect(page.get_by_role("main", name=view)).to_be_visible()
        await _open_all(page)
        await _nothing_ran(page, site)

    await page.goto("/")
    row = page.locator(f'[data-session-id="{made["id"]}"]')
    await expect(row).to_contain_text(f"{PAYLOAD}‹U+202E›eltit")
    await _nothing_ran(page, site)
    assert "\u202e" not in await page.title()


async def _conversation(page: Page, site: Site) -> None:
    main = page.get_by_role("main")
    await expect(messages(page, "assistant").last).to_contain_text(IMAGE)
    await page.get_by_role("feed", name="Messages").press("Home")
    await _open_all(page)
    await expect(messages(page, "user").first).to_contain_text(f"{PAYLOAD} ‹U+202E›ksat")
    first = messages(page, "assistant").first
    await expect(first).to_contain_text(IMAGE)
    await expect(first).to_contain_text("red ")
    await expect(first).to_contain_text("two ‹U+202E›x")
    await expect(first.get_by_role("link", name="good")).to_have_attribute("href", "https://elsewhere.example/page")
    for name in ("one", "two", "three", "four", "ref"):
        assert await main.get_by_role("link", name=name, exact=True).count() == 0
    text = await main.inner_text()
    assert "\x1b" not in text
    assert "\u202e" not in text
    await _nothing_ran(page, site)


async def _files(page: Page, site: Site) -> None:
    await tab(page, "Files").click()
    await expect(page.get_by_role("treeitem", name="photo_‹U+202E›gnp.exe")).to_be_visible()
    await page.get_by_role("treeitem").filter(has_text=FILE).click()
    await expect(page.get_by_role("region", name="File")).to_contain_text(SCRIPT)
    await expect(page.get_by_role("region", name="File")).to_contain_text("‹U+202E›")
    await _nothing_ran(page, site)


ANSWERS = """async (name) => {
  const link = [...document.querySelectorAll("nav.tabs a")].find((each) => each.textContent.trim() === name);
  const begun = performance.now();
  link.click();
  await new Promise((resolve) => addEventListener("hashchange", resolve, { once: true }));
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  return performance.now() - begun;
}"""


@pytest.mark.extended
@pytest.mark.timeout(180)
async def test_the_page_stays_responsive_with_huge_outputs_and_lines(
    page: Page, site: Site, client: Client, record_property: Any
) -> None:
    lines = "i=0; while [ $i -lt 100 ]; do head -c 50000 /dev/zero | tr '\\0' 'a'; echo; i=$((i+1)); done"
    line = "head -c 1000000 /dev/zero | tr '\\0' 'b'"
    task = site.task(
        "Huge",
        Reply(command(lines), command(line)),
        Reply(Text("".join(f"c{n:07}" for n in range(125_000)), 50)),
    )
    made = await client.create(task)
    await open_session(page, made["id"])
    await expect(badge(page, "completed")).to_be_visible()
    took = {"conversation": await page.evaluate(ANSWERS, "Usage")}

    await tab(page, "Conversation").click()
    await page.get_by_role("feed", name="Messages").press("Home")
    calls = page.locator("[data-call-id]")
    await expect(calls.first).to_have_attribute("data-status", "completed")
    await calls.first.locator("button[aria-expanded]").click()
    await page.get_by_role("button", name="Full output").click()
    dialog = page.get_by_role("dialog", name="Full output")
    await expect(dialog.get_by_role("region", name="Full output")).to_contain_text("aaaa")
    for _ in range(3):
        await dialog.get_by_role("button", name="Load more").click()
    await expect(dialog).to_contain_text("of 4.8 MiB loaded")
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    took["full output"] = await page.evaluate(ANSWERS, "Context")
    await expect(page.locator(".chart-text")).to_contain_text("Step")
    took["context"] = await page.evaluate(ANSWERS, "Files")

    record_property("click handled, ms", json.dumps(took))
    assert max(took.values()) < 1_000, took


BOUND_S = 30
"""How long the whole test may take, in seconds."""

LONGEST_TASK_MS = 3_000
"""How long a task may block the page; about 300 ms on an idle machine."""

ENDLESS = {
    "links in code": ("markdown", "[a](" * 6_000),
    "emphasis": ("", f"x {'*a_' * 3_000}\n\n" * 20 + "The end."),
}
"""The language if it is code, and a text that keeps the libraries busy for longer than their worker may run."""

UNDRAWABLE = {
    "templates in code": ("javascript", "`${" * 8_000),
    "a line of digits in code": ("javascript", "1 " * 24_000),
    "quotes": ("", ">" * 1_200 + " deep"),
}
"""Texts that are parsed quickly, but that no browser can draw as parsed."""

LONG_TASKS = """
window.longestTask = 0;
new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) window.longestTask = Math.max(window.longestTask, duration);
}).observe({ type: "longtask" });
"""

SHORT = f"""# Parsed as usual

{"More than is parsed on the main thread. " * 50}

```python
import this
```
"""


@pytest.mark.extended
@first_of(2, name=sorted({**UNDRAWABLE, **ENDLESS}))
async def test_the_page_stays_responsive_however_long_a_text_takes_to_parse_and_draw(
    page: Page, site: Site, client: Client, record_property: Any, name: str
) -> None:
    language, text = {**ENDLESS, **UNDRAWABLE}[name]
    shown = f"```{language}\n{text}\n```" if language else text
    made, events = await client.run(site.task("Read this", Reply(Text(shown)), Reply(Text(SHORT))))
    await client.say(made["id"], "And this.", after=max(event.id or 0 for event in events))
    stopped = asyncio.Event()
    page.on("worker", lambda worker: worker.on("close", lambda _: stopped.set()))
    await page.add_init_script(LONG_TASKS)
    async with asyncio.timeout(BOUND_S):
        await open_session(page, made["id"])
        await expect(messages(page, "assistant")).to_have_count(2)
        answered = await page.evaluate(ANSWERS, "Usage")
        await tab(page, "Conversation").click()
        await expect(page.get_by_role("heading", name="Parsed as usual")).to_be_visible()
        await expect(page.locator(".hl-keyword").get_by_text("import")).to_be_visible()
        await page.get_by_role("feed", name="Messages").press("Home")
        await expect(messages(page, "assistant").first).to_contain_text(text[:100])
        whole = await messages(page, "assistant").first.text_content()
        if name in ENDLESS:
            await stopped.wait()
        longest = await page.evaluate("() => window.longestTask")

    record_property("click handled, longest task, ms", json.dumps([answered, longest]))
    assert answered < 1_000
    assert longest < LONGEST_TASK_MS
    assert text.replace("\n", "") in (whole or "").replace("\n", "")


@pytest.mark.extended
async def test_these_tests_detect_violations(page: Page, faults: Faults) -> None:
    """Without this detection, the tests above would always pass."""
    await page.goto("/")
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    async with page.expect_console_message(lambda message: "CSP: img-src" in message.text):
        await page.evaluate("() => { new Image().src = 'https://elsewhere.example/x.png'; }")
    async with page.expect_console_message(lambda message: "require-trusted-types-for" in message.text):
        await page.evaluate("() => { try { document.body.innerHTML = '<b>x</b>'; } catch {} }")
    assert faults.found != []
    faults.allow.append(".")


@pytest.mark.extended
async def test_code_that_takes_minutes_to_highlight_is_shown_plain(page: Page, site: Site, client: Client) -> None:
    """The page stays responsive meanwhile, and later code is highlighted."""
    endless = "[a](" * 6_000
    fences = f"```markdown\n{endless}\n```\n\nbetween\n\n```python\nreturn None\n```\n"
    made = await client.create(site.task("highlighting", Reply(Text(fences))))
    await open_session(page, made["id"])
    await expect(badge(page, "completed")).to_be_visible()
    code = messages(page, "assistant").locator("pre.code")
    await expect(code.first).to_have_text(endless)
    await tab(page, "Events").click()
    await expect(page.get_by_role("main", name="Events")).to_be_visible()
    await tab(page, "Conversation").click()
    await expect(code.last.locator(".hl-keyword")).to_have_text("return")
    assert await code.first.locator("span").count() == 0
