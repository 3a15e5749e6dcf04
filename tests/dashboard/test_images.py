"""Images in messages: attached, sent to the model, shown with their size, and kept when a queued text is edited."""

from __future__ import annotations

import base64
import struct
import zlib

from playwright.async_api import FilePayload, Page, expect

from tests.behavior.harness import OPENAI, Client
from tests.dashboard import IN_BROWSER
from tests.dashboard.places import badge, button, composer, messages, open_session
from tests.dashboard.site import Site
from tests.provider import Hang, RecordedRequest, Reply, Text, ToolCall
from tests.provider.images import images_of

pytestmark = [*IN_BROWSER]

PASTE = """(area, data) => {
  const clipboardData = new DataTransfer();
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  clipboardData.items.add(new File([bytes], "blue.png", { type: "image/png" }));
  area.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}"""


def filled(width: int, height: int, color: bytes) -> bytes:
    """A PNG of one color."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    rows = chunk(b"IDAT", zlib.compress((b"\0" + color * width) * height))
    return b"\x89PNG\r\n\x1a\n" + head + rows + chunk(b"IEND", b"")


RED, BLUE = filled(40, 20, b"\xff\0\0"), filled(8, 8, b"\0\0\xff")


def file(name: str, data: bytes) -> FilePayload:
    """A file to attach."""
    return {"name": name, "mimeType": "image/png", "buffer": data}


def sent(site: Site, task: str) -> list[bytes]:
    """The images of the newest request of a task."""

    def concerns(request: RecordedRequest) -> bool:
        return any(task in text for text in request.user_texts)

    newest = [request for request in site.provider.requests if concerns(request)][-1]
    return [image.raw for image in images_of(newest.body)]


async def test_an_attached_image_reaches_the_model_and_is_shown(page: Page, site: Site, client: Client) -> None:
    task = site.task(
        "Look at images",
        Reply(Text("Ready.")),
        Reply(ToolCall("read_file", {"path": "blue.png"})),
        Reply(Text("A red and a blue one.")),
    )
    session_id = (await client.create(task))["id"]
    await client.until_idle(session_id)
    await client.http.put(f"/v1/sessions/{session_id}/files/blue.png", content=BLUE)
    await open_session(page, session_id)

    await page.get_by_label("Images to attach").set_input_files([file("red.png", RED), file("notes.png", b"no image")])
    await expect(page.get_by_role("alert")).to_have_text("“notes.png” is not a PNG, JPEG, GIF or WebP image.")
    await composer(page).evaluate(PASTE, base64.b64encode(BLUE).decode())
    attached = page.get_by_role("list", name="Attached images").get_by_role("listitem")
    await expect(attached).to_have_count(2)
    await button(page, "Remove blue.png").press("Enter")
    await expect(button(page, "Remove red.png")).to_be_focused()
    await composer(page).fill("What do you see?")
    await button(page, "Send").click()

    await expect(messages(page, "assistant").last).to_contain_text("A red and a blue one.")
    await expect(attached).to_have_count(0)
    assert sent(site, task) == [RED, BLUE]
    shown = messages(page, "user").last.get_by_role("img", name="Image (PNG), 40 × 20")
    await expect(shown).to_have_js_property("naturalWidth", 40)
    await page.locator(".call").get_by_role("button", name="Read").click()
    await expect(page.get_by_role("img", name="Image blue.png, 8 × 8")).to_have_js_property("naturalWidth", 8)
    opener = button(page, "Open Image (PNG), 40 × 20")
    await opener.press("Enter")
    await expect(page.get_by_role("dialog", name="Image (PNG), 40 × 20")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(opener).to_be_focused()


async def test_a_task_has_images_and_a_queued_one_keeps_them_when_edited(
    page: Page, site: Site, client: Client
) -> None:
    task = site.task("A task with an image", Reply(Text("Looking", 2), Hang()))
    await client.create()  # so that this is no first visit
    await page.goto("/")
    await button(page, "New session").click()
    form = page.get_by_role("form", name="New session")
    await form.get_by_label("Task").fill(task)
    await form.get_by_label("Model", exact=True).select_option(OPENAI)
    await form.get_by_label("Images to attach").set_input_files(file("red.png", RED))
    await expect(form.get_by_role("img", name="red.png")).to_be_visible()
    await button(form, "Start").click()
    await expect(messages(page, "assistant").last).to_contain_text("Looking")
    await expect(messages(page, "user").first.get_by_role("img")).to_have_js_property("naturalWidth", 40)
    assert sent(site, task) == [RED]

    session_id = page.url.rpartition("/")[2]
    content = [
        {"type": "text", "text": "And that?"},
        {"type": "image", "media_type": "image/png", "data": base64.b64encode(BLUE).decode()},
    ]
    queue = f"/v1/sessions/{session_id}/queue"
    await client.http.post(queue, json={"content": content, "mode": "follow_up"})
    pending = page.get_by_role("region", name="Pending messages")
    await expect(pending.get_by_role("img", name="Image (PNG), 8 × 8")).to_be_visible()
    await button(pending, "Edit").click()
    await pending.get_by_label("Edited message").fill("And this?")
    await button(pending, "Save").click()
    await expect(pending.get_by_role("group")).to_contain_text("And this?")
    (item,) = (await client.get(queue))["items"]
    assert [part.get("text", part.get("width")) for part in item["content"]] == ["And this?", 8]
    await client.http.post(f"/v1/sessions/{session_id}/cancel")
    await expect(badge(page, "cancelled")).to_be_visible()
