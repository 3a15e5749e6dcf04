"""Calls in the transcript: one line if they went well, the end of the output if not, and the diffs of edits."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

from playwright.async_api import BrowserContext, Page, Route, expect

from app.tools.edit import EditFileArguments, _edit
from tests.behavior.harness import Client, command
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import module
from tests.dashboard.places import button, messages, open_session
from tests.dashboard.site import Site
from tests.provider import Reply, Text, ToolCall

pytestmark = [*IN_BROWSER]

RED = r"\033[1;31m<b>FAILED</b>\033[0m"
CODE = "".join(f"line_{number} = {number}\n" for number in range(1, 31))


async def test_calls_read_like_a_log(page: Page, site: Site, client: Client, context: BrowserContext) -> None:
    task = site.task(
        "Calls",
        Reply(
            Text("First.\n\n```python\nimport this\n```\n"), ToolCall("write_file", {"path": "a.py", "content": CODE})
        ),
        Reply(ToolCall("edit_file", {"path": "a.py", "old_text": "= 14\n", "new_text": "= 1400\n"}), command("true")),
        Reply(command(f"seq 1 30; printf '{RED} \\033]8;;http://evil.example\\007x\\n'; exit 3")),
        Reply(command("seq 1 90000")),
    )
    session_id = (await client.create(task))["id"]
    await client.until_idle(session_id)
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    await open_session(page, session_id)
    await expect(messages(page).last).to_be_visible()
    calls = page.locator("[data-call-id]")
    write, edit, fine, failed, long = (calls.nth(number) for number in range(5))
    await page.get_by_role("feed", name="Messages").press("Home")

    await expect(write.locator(".diff-line")).to_have_count(16)
    await button(write, "Show all 30 lines").click()
    await expect(write.locator(".diff-line.added")).to_have_count(30)
    await expect(edit.locator(".diff-line")).to_have_count(8)
    numbers = await edit.locator(".diff-line").evaluate_all("(all) => all.map((line) => line.innerText.split('\\n'))")
    assert [line[0] for line in numbers[:3]] == ["11", "12", "13"]
    await expect(edit.locator(".diff-line.removed")).to_contain_text("line_14 = 14")
    await expect(edit.locator(".diff-line.added")).to_contain_text("line_14 = 1400")
    assert await fine.inner_text() == await fine.locator(".fold-head").inner_text()
    await expect(fine.locator(".badge")).to_have_count(0)

    await expect(failed.locator(".badge")).to_have_text("exit 3")
    tail = failed.get_by_label("End of the output")
    await expect(tail).to_contain_text("<b>FAILED</b> x")
    assert (await tail.inner_text()).split("\n")[0] == "23"
    await expect(tail.locator("b, a")).to_have_count(0)

    await button(page, "Copy code").click()
    assert await page.evaluate("navigator.clipboard.readText()") == "import this"
    await messages(page, "assistant").first.get_by_role("button", name="Copy message").click()
    assert "```python" in await page.evaluate("navigator.clipboard.readText()")
    await failed.locator(".fold-head").click()
    await expect(tail).to_be_hidden()
    await button(failed, "Copy output").click()
    assert "\n<b>FAILED</b> x\n" in await page.evaluate("navigator.clipboard.readText()")

    await page.get_by_role("feed", name="Messages").press("End")
    await long.locator(".fold-head").click()
    await button(long, "Full output").click()
    await _find_in_the_full_output(page)


async def _find_in_the_full_output(page: Page) -> None:
    """A search also finds what is not loaded yet, or is being loaded, and shows where it is."""
    dialog = page.get_by_role("dialog", name="Full output")
    lines = dialog.locator(".line")
    await expect(lines.first).to_contain_text("1")
    is_typed = asyncio.Event()

    async def hold(route: Route) -> None:
        await is_typed.wait()
        await route.continue_()

    await page.route("**/output", hold)
    await button(dialog, "Load more").click()
    await page.keyboard.press("Control+f")
    await expect(dialog.get_by_label("Find in output")).to_be_focused()
    await page.keyboard.type("8765")
    is_typed.set()
    await expect(dialog.get_by_role("search").get_by_role("status")).to_have_text("1 of 19")
    await expect(dialog.locator(".match.current")).to_have_text("8765")
    await expect(lines.filter(has=page.locator(".match.current"))).to_contain_text("8765")
    await page.keyboard.press("Shift+Enter")
    await expect(lines.filter(has=page.locator(".match.current")).locator(".line-number")).to_have_text("88765")
    assert await lines.count() < 100
    await expect(dialog).to_contain_text("All 516 KiB loaded")
    await page.keyboard.press("Escape")


DIFFS = """({ diffOfCall }, calls) => calls.map(([args, output]) => {
  const { lines, texts } = diffOfCall("edit_file", args, output);
  return lines.map(({ kind, old, new: now, side, start, end }) => [kind, old, now, texts[side].slice(start, end)]);
})"""


async def test_the_diff_of_an_edit_has_the_numbers_and_lines_of_the_file(bare: Page) -> None:
    chance = random.Random(5)
    files: list[tuple[list[str], list[str]]] = []
    calls: list[list[Any]] = []
    for _ in range(80):
        lines = [" ".join(chance.choices("abcdefgh", k=chance.randint(0, 5))) for _ in range(chance.randint(1, 90))]
        content = "\n".join(lines) + chance.choice(["", "\n"])
        start = chance.randrange(len(content) + 1)
        old = content[start : start + chance.randint(1, 60)]
        if content.count(old) != 1 or content.find(old, content.find(old) + 1) >= 0:
            continue
        new = chance.choice(["", old.replace("a", "x") + "y", "z\n" * chance.randint(1, 60), "q" + old])
        args = EditFileArguments(path="a.txt", old_text=old, new_text=new)
        changed, report = _edit(content.encode(), args)
        files.append((content.split("\n"), changed.decode().split("\n")))
        calls.append([json.loads(args.model_dump_json()), report])

    diffs: list[list[Any]] = await module(bare, "core/edits.js", DIFFS, calls)

    numbered = 0
    for (before, after), diff in zip(files, diffs, strict=True):
        # Without a line around the change, its first and last line may be parts of lines.
        is_whole = any(line[0] == "same" for line in diff)
        for _, was, now, text in diff if is_whole else ():
            assert was is None or before[was - 1] == text, (was, text, diff)
            assert now is None or after[now - 1] == text, (now, text, diff)
        numbered += diff[-1][1] is not None or diff[-1][2] is not None
    assert len(calls) > 40
    assert numbered > 0.8 * len(calls)


async def test_colors_of_a_terminal_are_ranges_of_its_text(bare: Page) -> None:
    script = """({ withColors }, texts) => texts.map((raw) => {
      const { text, tokens } = withColors(raw);
      return [text, tokens.map(({ start, end, scope }) => [text.slice(start, end), scope])];
    })"""
    texts: dict[str, list[Any]] = {
        "plain": ["plain", []],
        "a\x1b[31mb\x1b[0mc": ["abc", [["b", "ansi-red"]]],
        "\x1b[1;92mx\x1b[22my\x1b[39mz": ["xyz", [["x", "ansi-green ansi-bold"], ["y", "ansi-green"]]],
        "\x1b[38;5;196mr\x1b[38;2;20;40;250mb\x1b[48;2;1;2;3m.": [
            "rb.",
            [["r", "ansi-red"], ["b", "ansi-blue"], [".", "ansi-blue"]],
        ],
        "\x1b[8mhidden\x1b[0m \x1b[30;40mblack\x1b[m\r\n": ["hidden black\n", [["black", "ansi-gray"]]],
        "\x1b[31m\u202e\x1b]0;title\x07<i>\x1b[2J": ["‹U+202E›<i>", [["‹U+202E›", "ansi-red"], ["<i>", "ansi-red"]]],
        '\x1b[31;"><img src=x>m': ['␛[31;"><img src=x>m', []],
    }

    assert await module(bare, "core/ansi.js", script, [*texts]) == [*texts.values()]
