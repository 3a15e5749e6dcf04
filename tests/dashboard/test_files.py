"""The files view: closing, dragging and uploading files."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from tests.behavior.harness import Client
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import Faults
from tests.dashboard.places import button, open_session

pytestmark = [*IN_BROWSER]


async def _put(client: Client, session_id: str, path: str) -> None:
    response = await client.http.put(f"/v1/sessions/{session_id}/files/{path}", content=b"as it was\n")
    assert response.is_success


@pytest.mark.extended
async def test_closing_a_file_moves_the_focus_to_the_tree(page: Page, client: Client) -> None:
    session_id = (await client.create())["id"]
    await _put(client, session_id, "there.txt")
    await open_session(page, session_id, "files")
    await page.get_by_role("treeitem", name="there.txt").click()
    await expect(page.get_by_role("region", name="there.txt, 1 lines")).to_contain_text("as it was")
    await button(page, "Close").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("tree", name="Files")).to_be_focused()


DRAGGED = """(element, [type, isFile, to]) => {
  const dataTransfer = new DataTransfer();
  if (isFile) dataTransfer.items.add(new File(["x"], "x.txt"));
  else dataTransfer.setData("text/plain", "x");
  const relatedTarget = to && document.querySelector(to);
  const event = new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer, relatedTarget });
  element.dispatchEvent(event);
  return event.defaultPrevented;
}"""


@pytest.mark.extended
async def test_a_file_dropped_outside_the_tree_does_not_replace_the_page(page: Page, client: Client) -> None:
    session_id = (await client.create())["id"]
    await _put(client, session_id, "folder/inner.txt")
    await open_session(page, session_id, "files")
    brand, folder = page.get_by_role("link", name="Palimpsest"), page.get_by_role("treeitem", name="folder")
    for event in ("dragover", "drop"):
        assert await brand.evaluate(DRAGGED, [event, True, None])
        assert not await brand.evaluate(DRAGGED, [event, False, None])
    await folder.evaluate(DRAGGED, ["dragover", True, None])
    await expect(folder).to_have_class(re.compile("target"))
    await folder.evaluate(DRAGGED, ["dragleave", True, ".tree-name"])
    await folder.evaluate("() => new Promise(requestAnimationFrame)")
    await expect(folder).to_have_class(re.compile("target"))
    await folder.evaluate(DRAGGED, ["dragleave", True, ".brand"])
    await expect(folder).not_to_have_class(re.compile("target"))


async def test_replacing_a_file_in_a_truncated_folder_asks_first(page: Page, client: Client, faults: Faults) -> None:
    faults.allow.append("status of 404")
    session_id = (await client.create())["id"]
    await _put(client, session_id, "there.txt")
    await page.route("**/files?*", lambda route: route.fulfill(json={"path": ".", "items": [], "truncated": True}))
    await open_session(page, session_id, "files")
    chosen = page.get_by_label("Files to upload")
    await chosen.set_input_files({"name": "there.txt", "mimeType": "text/plain", "buffer": b"new"})
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Already in the workspace: there.txt.")
    await button(dialog, "Cancel").click()
    await chosen.set_input_files({"name": "other.txt", "mimeType": "text/plain", "buffer": b"new"})
    await expect(page.get_by_role("region", name="Uploads")).to_contain_text(re.compile(r"other\.txt\s*uploaded"))
    await expect(dialog).to_be_hidden()
