"""Bringing work in on the page: folders, archives, repositories and secrets."""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.behavior.harness import Client, command
from tests.behavior.test_archives import tarred
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import Faults, watched
from tests.dashboard.conftest import ServeSite
from tests.dashboard.places import badge, button, messages, session_id
from tests.dashboard.site import Site
from tests.git_server import git_server
from tests.provider import Reply, Text

pytestmark = [*IN_BROWSER]

LONG = f"ünï/{'l' * 90}/{'m' * 90}.txt"
SPLIT = f"{'d' * 60}/{'e' * 60}.txt"
TAKEN = {
    ".gitignore": "*.log\n/build/\n!kept.log\n",
    "kept.log": "kept\n",
    "run.sh": "#!/bin/sh\necho ran\n",
    "src/.gitignore": "made\n",
    "src/main.py": "print(1)\n",
    LONG: "long\n",
    SPLIT: "",
}
LEFT = {".git/HEAD": "ref", "node_modules/a/index.js": "1", "lost.log": "", "build/out": "", "src/made/x": ""}
SECRET = "correct-horse-battery"


async def _open_form(page: Page, client: Client) -> Locator:
    await client.create()  # so that this is no first visit
    await page.goto("/")
    await button(page, "New session").click()
    return page.get_by_role("form", name="New session")


async def _drop(page: Page, target: Locator, path: Path) -> None:
    """Drops a file or folder of this machine, as a file manager does."""
    browser = await page.context.new_cdp_session(page)
    box = await target.bounding_box()
    assert box is not None
    at = {"x": box["x"] + 20, "y": box["y"] + 20}
    data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        await browser.send("Input.dispatchDragEvent", {"type": kind, "data": data, **at})


async def _files(client: Client, session: str) -> dict[str, tuple[str, bool]]:
    """The workspace's files: their text, and whether they are executable."""
    answer = await client.http.get(f"/v1/sessions/{session}/archive")
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        found = [(each, archive.extractfile(each)) for each in archive if each.isreg()]
        return {each.name: (file.read().decode(), bool(each.mode & 0o100)) for each, file in found if file is not None}


async def test_a_dropped_folder_reaches_the_workspace(page: Page, site: Site, client: Client, tmp_path: Path) -> None:
    for name, text in {**TAKEN, **LEFT}.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    task = site.task("Run it", Reply(command("./run.sh")), Reply(Text("It ran.")))
    form = await _open_form(page, client)
    await form.get_by_label("Task").fill(task)
    taken = re.compile(rf"project\s+{len(TAKEN)} files, \d+ B")
    await form.get_by_role("radio", name="Folder or archive").check()
    await form.get_by_label("Folder to upload").set_input_files(tmp_path / "project")
    await expect(form.get_by_role("status")).to_have_text(taken)
    await button(form, "Remove").click()
    await form.get_by_role("radio", name="Empty").check()
    await button(form, "Cancel").click()
    await _drop(page, page.get_by_role("main"), tmp_path / "project")
    await expect(form.get_by_role("status")).to_have_text(taken)
    await form.get_by_text("Left out:").click()
    left = await form.get_by_role("list", name="What was left out").get_by_role("listitem").all_inner_texts()
    expected = {".git/ never included", "node_modules/ never included", "lost.log ignored by .gitignore"}
    assert set(left) == {*expected, "build/ ignored by .gitignore", "src/made/ ignored by .gitignore"}
    await button(form, "Start").click()
    await expect(messages(page, "assistant").last).to_contain_text("It ran.")
    found = await _files(client, session_id(page))
    assert found == {name: (text, name == "run.sh") for name, text in TAKEN.items()}


async def test_a_refused_archive_is_named_and_nothing_is_lost(
    page: Page, site: Site, client: Client, faults: Faults
) -> None:
    faults.allow.append("status of 422")
    task = site.task("Use the secret", Reply(command("cat a; echo $API_TOKEN")), Reply(Text("Done.")))
    form = await _open_form(page, client)
    await form.get_by_label("Task").fill(task)
    await form.get_by_role("radio", name="Folder or archive").check()
    archive = form.get_by_label("Archive to upload")
    bad = tarred({"a": b"1", "../b": b"2"})
    await archive.set_input_files({"name": "bad.tar", "mimeType": "application/x-tar", "buffer": bad})
    await form.locator("summary").filter(has_text="Secrets").click()
    await button(form, "Add secret").click()
    await expect(form.get_by_label("Name", exact=True)).to_be_focused()
    await page.keyboard.type("API_TOKEN")
    value = form.get_by_label("Value")
    await value.fill("short")
    await form.locator("summary").filter(has_text="More").click()
    schema = form.get_by_label("Output (JSON Schema)")
    await schema.fill('{"type": "nothing"}')

    await button(form, "Start").click()
    await expect(form.get_by_text("A secret should have 8 to 16,384 characters")).to_be_visible()
    await value.fill(SECRET)
    await button(form, "Start").click()
    await expect(schema).to_have_accessible_description(re.compile("'nothing' is not valid"))
    await schema.fill("")
    await button(form, "Start").click()
    await expect(form.get_by_role("group", name="Files")).to_contain_text("The entry '../b' leads out")
    await expect(form.get_by_label("Task")).to_have_value(task)
    await expect(value).to_have_value(SECRET)
    await expect(form.get_by_text("bad.tar")).to_be_visible()
    stored = "() => JSON.stringify([document.cookie, localStorage, sessionStorage, location, history.state])"
    assert SECRET not in await page.evaluate(stored)

    good = tarred({"a": b"1"})
    await archive.set_input_files({"name": "good.tar", "mimeType": "application/x-tar", "buffer": good})
    await button(form, "Start").click()
    await expect(messages(page, "assistant").last).to_contain_text("Done.")
    await messages(page, "assistant").first.locator("button[aria-expanded]").click()
    await expect(page.get_by_role("region", name="Output")).to_contain_text("1[secret API_TOKEN]")
    await _replace_and_delete(page, client)
    assert SECRET not in await page.evaluate(stored)


async def _replace_and_delete(page: Page, client: Client) -> None:
    """The session's secrets are listed by name, and can be changed."""
    secrets = f"/v1/sessions/{session_id(page)}/secrets"
    await button(page, "Actions").click()
    await page.get_by_role("menuitem", name="Secrets").click()
    dialog = page.get_by_role("dialog", name="Secrets", exact=True)
    await button(dialog, "Replace API_TOKEN").click()
    await page.keyboard.type(f"another-{SECRET}")
    await button(dialog, "Replace").click()
    await expect(dialog.get_by_role("listitem")).to_have_text(re.compile(r"API_TOKEN\s*replaced"))
    (item,) = (await client.get(secrets))["items"]
    assert item["updated_at"] > item["created_at"]
    await button(dialog, "Delete API_TOKEN").click()
    await button(page.get_by_role("dialog", name="Delete secret?"), "Delete").click()
    await expect(dialog).to_contain_text("No secrets yet.")
    assert (await client.get(secrets))["items"] == []


@pytest.mark.slow
async def test_a_repository_is_cloned_once_it_can_be(
    own_site: ServeSite, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with git_server(tmp_path) as git:
        git.commit({"src/main.py": "print('hello')\n"})
        git.password = SECRET
        monkeypatch.setenv("GIT_SSL_CAINFO", str(git.authority))
        with own_site(PALIMPSEST_GIT_NETWORKS="127.0.0.0/8") as site:
            task = site.task("Read it", Reply(command("cat src/main.py")), Reply(Text("Read.")))
            async with watched(browser, site.url) as (context, _):
                page = await context.new_page()
                await page.goto("/")
                form = page.get_by_role("form", name="New session")
                await form.get_by_label("Task").fill(task)
                await form.get_by_role("radio", name="Git repository").check()
                await form.get_by_label("Repository URL").fill(git.url)
                await form.get_by_label("Branch, tag or commit").fill("later")
                await form.locator("summary").filter(has_text="Secrets").click()
                await button(form, "Add secret").click()
                await expect(form.get_by_label("Name", exact=True)).to_be_focused()
                await page.keyboard.type("GIT_TOKEN")
                await form.get_by_label("Value").fill(SECRET)
                await form.get_by_label("Credential").select_option("GIT_TOKEN")
                await button(form, "Start").click()
                line = page.get_by_role("status").filter(has_text=git.url)
                await expect(line).to_contain_text("Could not clone")
                commit = git.commit({"new": "1"}, "later")
                await button(page, "Retry").click()
                await expect(line).to_contain_text(f"Cloned {git.url}, later at {commit[:10]}")
                await expect(badge(page, "completed")).to_be_visible()
                await page.reload()
                await expect(line).to_contain_text(f"at {commit[:10]}")
