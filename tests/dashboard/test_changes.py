"""What a run has changed: the changes view, a restore, and the end of a run in the conversation."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path

from playwright.async_api import Locator, Page, expect

from tests.behavior.harness import Client, command
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import module
from tests.dashboard.places import button, open_session, say, tab
from tests.dashboard.site import Site
from tests.provider import Gate, HttpError, Reply, Text, ToolCall

pytestmark = [*IN_BROWSER]

BEFORE = {
    "src/app.py": b"import os\n\n\n" + b"".join(b"def f%d(value):\n    return value * %d\n" % (n, n) for n in range(9)),
    "old name.txt": b"".join(b"a line that stays %d\n" % number for number in range(20)),
    "gone.txt": b"gone\n",
    "image.bin": bytes(range(256)) * 4,
    ".gitignore": b"*.log\n",
}
HOSTILE = "\u202egpj.<img src=x onerror=a()>\n.txt"
EDIT = r"""
sed -i 's/^def f4(value)/def f4(value, name)/' src/app.py; mv 'old name.txt' 'new name.txt'; rm gone.txt
printf '\000\001' > image.bin; echo noise > a.log; seq 1 700 > long.txt
printf '<b>bold</b>\n\033[8mhidden\n\342\200\256evil\n' > "$(printf '\342\200\256gpj.<img src=x onerror=a()>\n.txt')"
"""
ANSWER = "The function `f4` takes **a name** now."


async def edited(client: Client, site: Site, *later: Reply) -> str:
    """A session with files that a run has changed. `later` are the model's answers to further messages."""
    session_id: str = (await client.create())["id"]
    for name, content in BEFORE.items():
        assert (await client.http.put(f"/v1/sessions/{session_id}/files/{name}", content=content)).is_success
    await client.say(session_id, site.task("Give f4 a name", Reply(command(EDIT)), Reply(Text(ANSWER)), *later))
    return session_id


def change(page: Page, path: str) -> Locator:
    """The section of a changed file."""
    return page.get_by_role("region", name=path, exact=True)


async def applied(folder: Path, patch: Path) -> dict[str, bytes]:
    """The files of before after `git apply`."""

    def apply() -> dict[str, bytes]:
        for name, content in BEFORE.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        subprocess.run(["git", "apply", str(patch)], cwd=folder, check=True)
        return {
            path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts
        }

    return await asyncio.to_thread(apply)


async def test_the_changes_of_a_run_are_shown_and_can_be_undone(page: Page, site: Site, client: Client) -> None:
    session_id = await edited(client, site)
    await open_session(page, session_id, "changes")
    await expect(page.get_by_role("status").filter(has_text="6 files changed")).to_contain_text("+704")
    app = change(page, "src/app.py")
    await expect(app).to_contain_text("modified")
    removed, added = app.locator(".diff-line.removed"), app.locator(".diff-line.added")
    await expect(removed).to_have_text(re.compile(r"^12-removed: def f4\(value\):$"))
    await expect(added).to_have_text(re.compile(r"^12\+added: def f4\(value, name\):$"))
    await expect(added.locator(".hl-keyword")).to_have_text("def")
    await expect(app.locator(".diff-line.same")).to_have_count(6)
    await expect(change(page, "gone.txt").locator(".diff-line.removed")).to_contain_text("gone")
    await expect(change(page, "new name.txt")).to_contain_text("old name.txt")
    await expect(change(page, "new name.txt")).to_contain_text("Renamed without other changes.")
    await change(page, "image.bin").get_by_role("button").click()
    await expect(change(page, "image.bin")).to_contain_text("A binary file.")
    await _a_long_diff_is_folded(change(page, "long.txt"))
    await page.get_by_text("Not covered by checkpoints (1)").click()
    await expect(page.locator(".not-covered")).to_contain_text("Ignored by .gitignorea.log")
    await _restore(page, client, session_id)


async def _a_long_diff_is_folded(long: Locator) -> None:
    """Opened, only the lines near the visible ones are in the page."""
    await expect(long.locator(".diff-line")).to_have_count(0)
    await long.get_by_role("button").click()
    await expect(long.locator(".diff-line.added").first).to_contain_text("1")
    assert await long.locator(".diff-line").count() < 300
    await long.page.get_by_role("main").evaluate("(view) => (view.scrollTop += 700 * 20)")
    await expect(long.locator(".diff-line.added").filter(has_text=re.compile("700$"))).to_be_visible()


async def _restore(page: Page, client: Client, session_id: str) -> None:
    await button(page, "Restore…").click()
    dialog = page.get_by_role("dialog", name="Restore a checkpoint")
    preview = dialog.get_by_role("region", name="Files that change")
    await expect(preview).to_contain_text("added gone.txt")
    await expect(preview).to_contain_text("renamed new name.txt → old name.txt")
    await expect(preview).to_contain_text("deleted long.txt")
    await button(dialog, "Restore").click()
    await expect(dialog).to_be_hidden()
    await expect(page.get_by_role("heading", name="No changes")).to_be_visible()
    for name, content in BEFORE.items():
        assert (await client.http.get(f"/v1/sessions/{session_id}/files/{name}")).content == content
    saved = page.get_by_label("From", exact=True).locator("option").filter(has_text="Before a restore")
    await expect(saved).to_have_count(1)


async def test_names_and_contents_of_files_are_only_text(page: Page, site: Site, client: Client) -> None:
    session_id = await edited(client, site)
    await open_session(page, session_id, "changes")
    hostile = change(page, "‹U+202E›gpj.<img src=x onerror=a()>␊.txt")
    await expect(hostile.locator(".diff-line code")).to_have_text(["<b>bold</b>", "␛[8mhidden", "‹U+202E›evil"])
    assert await page.locator("main img, main b").count() == 0


async def test_a_restore_is_refused_while_a_run_is_active(page: Page, site: Site, client: Client) -> None:
    waiting = Reply(Text("Waiting."), Gate("restore"), command("echo new > new.txt"))
    session_id = await edited(client, site, waiting, Reply(Text("Over.")))
    await open_session(page, session_id, "changes")
    await button(page, "Restore…").click()
    dialog = page.get_by_role("dialog", name="Restore a checkpoint")
    await expect(button(dialog, "Restore")).to_be_enabled()
    await client.post(session_id, "Go on.")
    await expect(dialog.get_by_role("alert")).to_contain_text("A run is active.")
    await expect(button(dialog, "Restore")).to_be_disabled()
    await button(dialog, "Cancel").click()
    site.provider.open("restore")
    # The list is updated when the run ends.
    await expect(change(page, "new.txt")).to_contain_text("added")


async def test_the_end_of_a_run_shows_its_result(page: Page, site: Site, client: Client, tmp_path: Path) -> None:
    session_id = await edited(client, site, Reply(HttpError(402)))
    await open_session(page, session_id)
    answer, card = page.locator(".row.answer"), page.locator("[data-run-end]")
    await expect(answer.locator("strong")).to_have_text("a name")
    await expect(card).to_have_accessible_name("End of a run: completed")
    await expect(card).to_contain_text(re.compile(r"completed\s*2 steps\s*[\d.]+ m?s\s*6 files changed\s*\+704"))
    await expect(card.get_by_role("listitem")).to_have_count(6)
    await expect(card.get_by_role("listitem").last).to_have_text("and 1 more")
    async with page.expect_download() as download:
        await card.get_by_role("link", name="Download patch").click()
    files = await applied(tmp_path / "checkout", await (await download.value).path())
    assert files["new name.txt"] == BEFORE["old name.txt"]
    assert files["image.bin"] == b"\0\1"
    assert files[HOSTILE].startswith(b"<b>bold</b>\n\x1b[8mhidden\n")
    assert "gone.txt" not in files
    await _the_next_run_fails(page, card)


async def _the_next_run_fails(page: Page, card: Locator) -> None:
    """The earlier card stays, and shows the changes of its own run."""
    await say(page, "Go on.")
    await expect(card.last).to_contain_text("provider_bad_request")
    await expect(card.last).to_contain_text("Resume to try the failed step again")
    await expect(card.last).to_contain_text("no files changed")
    await page.reload()
    await expect(card).to_have_count(2)
    await expect(button(card.first, "Fork")).to_have_count(0)
    await button(card.last, "Fork").click()
    await button(page.get_by_role("dialog", name="Fork session"), "Cancel").click()
    await card.first.get_by_role("link", name="Show changes").click()
    await expect(page.get_by_label("To", exact=True).locator("option:checked")).to_contain_text("Run 1 ended")
    await expect(change(page, "gone.txt")).to_contain_text("deleted")
    await tab(page, "Conversation").click()
    await expect(card.first).to_contain_text("completed")


async def test_the_end_of_a_run_shows_its_output(page: Page, site: Site, client: Client) -> None:
    value = {"verdict": "<b>fine</b>", "files": [1, 2]}
    task = site.task("Give a verdict", Reply(Text("Checked."), ToolCall("submit_output", value)))
    session_id = (await client.create(task, output={"schema": {"type": "object", "required": ["verdict"]}}))["id"]
    await client.until_idle(session_id)
    await open_session(page, session_id)
    output = page.locator("[data-run-end]").get_by_role("region", name="Output")
    await expect(output.locator("pre")).to_have_text(json.dumps(value, indent=2), use_inner_text=True)
    await page.goto("/")
    await expect(page.locator(f'[data-session-id="{session_id}"]')).to_contain_text('{"verdict":"<b>fine</b>"')


async def test_a_large_patch_is_split_in_no_time(bare: Page) -> None:
    """5 MB in 200 files, one of them with lines of 100,000 characters."""
    patch = "".join(
        f"diff --git a/f{n} b/f{n}\nindex 1..2 100644\n--- a/f{n}\n+++ b/f{n}\n@@ -1,300 +1,300 @@\n"
        + (f"-{'x' * 100_000}\n+{'y' * 100_000}\n" if n == 0 else "-old line of a file\n+new line of the file\n" * 600)
        for n in range(200)
    )
    assert len(patch) > 5_000_000
    script = """(patch, text) => {
      const began = performance.now();
      const parts = patch.partsOf(text);
      const found = parts.map((part) => patch.diffOf(part));
      const cut = (_, from, end, columns) => Math.min(end, from + columns);
      const rows = patch.rowsOfDiff(found[0], 100, cut);
      return [parts.length, found[199].lines.length, rows.length, performance.now() - began];
    }"""
    parts, lines, rows, took = await module(bare, "core/patch.js", script, patch)
    assert (parts, lines, rows) == (200, 1200, 2000)
    # Far more than it takes, for a busy machine.
    assert took < 3_000
