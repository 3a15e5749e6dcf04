"""The command: runs the sessions, opens the page, and writes the screenshots to docs/images/."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.async_api import Browser, expect

from scripts.screenshots.shop import FILES
from scripts.screenshots.story import SUMMARY, TASK, answers
from tests.behavior.harness import Client
from tests.behavior.long_task import asks_for_summary
from tests.dashboard.browser import DESKTOP, PHONE, launched, watched
from tests.dashboard.places import messages, open_session, tab
from tests.dashboard.site import Script, link, server
from tests.provider import FakeProvider, Hang, HttpError, RecordedRequest, Reply, Text, ToolCall, running_provider

IMAGES = Path(__file__).parents[2] / "docs" / "images"
GPT, CLAUDE = "openai/gpt-5", "anthropic/claude-sonnet-5"
WINDOW = 10_000
"""Small, so that the session is compacted within a few steps."""

COMPACTION = {
    **{"policy": "reactive", "tail_tokens": 2_500, "min_turns_to_keep": 0, "recent_messages_to_keep": 2},
    **{"prune_protect": 3_000, "prune_minimum": 2_000},
}
HALF, END = "half of it", "in the middle of a sentence"

DONE = (
    ("Move the price list to the new table", CLAUDE, "The price list is moved, and the old table is gone."),
    ("Which of our dependencies have had no release for two years?", GPT, "Three of them, listed above."),
    ("Make the search in the archive case-insensitive", CLAUDE, "Done, with an index on the lowercase names."),
)

OTHERS: tuple[tuple[str, dict[str, Any], list[Any]], ...] = (
    (
        "Bring the README up to date with the new flags",
        {"model": CLAUDE},
        [Reply(Text("Done: three flags were missing."))],
    ),
    ("Why is the nightly import twice as slow since Tuesday?", {"model": GPT}, [HttpError(401)]),
    (
        "Release 2.4: tag, build, upload",
        {"model": CLAUDE, "approval": {"policy": "always", "timeout_s": 3600}},
        [Reply(Text("All tests pass."), ToolCall("execute_command", {"command": "git push origin v2.4.0"}))],
    ),
    (
        "Port the shopping cart tests to the new client",
        {"model": GPT},
        [Reply(Text("I'll start with the oldest"), Hang())],
    ),
    (
        "Explain the retry policy of the payment queue",
        {"model": CLAUDE},
        [Reply(Text("It doubles the wait each time."))],
    ),
)


async def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder, running_provider() as provider:
        environment = {
            "PALIMPSEST_MODELS": json.dumps({GPT: {"context_window": WINDOW}, CLAUDE: {"context_window": 200_000}}),
            "PALIMPSEST_MODEL": GPT,
            "PALIMPSEST_COMPACTION": json.dumps(COMPACTION),
            "PALIMPSEST_PROVIDERS": "{}",
            **{"OPENAI_API_KEY": "a-key", "OPENAI_BASE_URL": provider.openai_url},
            **{"ANTHROPIC_API_KEY": "a-key", "ANTHROPIC_BASE_URL": provider.url},
        }
        with server(Path(folder), provider, environment=environment) as process:
            async with Client(process.url) as client, launched() as browser:
                await _play_others(provider, client)
                session_id = await _play(provider, client)
                for scheme in ("light", "dark"):
                    await _take(browser, process.url, session_id, scheme)
                await _take_phone(browser, process.url, session_id)


async def _play_others(provider: FakeProvider, client: Client) -> None:
    done: list[tuple[str, dict[str, Any], list[Any]]] = [
        (task, {"model": model}, [Reply(Text(text))]) for task, model, text in DONE
    ]
    for task, fields, replies in (*done, *OTHERS):
        _script(provider, task, replies)
        made = await client.create(task, **fields)
        if not any(isinstance(part, Hang | ToolCall) for part in getattr(replies[0], "parts", ())):
            await client.until_idle(made["id"])


async def _play(provider: FakeProvider, client: Client) -> str:
    """The session of the screenshots, up to the middle of its last step."""
    _script(provider, TASK, answers(HALF, END), SUMMARY)
    made = await client.create(model=GPT, title="Orders after midnight have yesterday’s rate")
    session_id: str = made["id"]
    for path, text in FILES.items():
        stored = await client.http.put(f"/v1/sessions/{session_id}/files/{path}", content=text.encode())
        assert stored.is_success, stored.text
    await client.post(session_id, TASK)
    await provider.reached(HALF, timeout=120)
    asked = {"instructions": "Keep which orders were charged wrongly, and what the logs have ruled out."}
    assert (await client.http.post(f"/v1/sessions/{session_id}/compactions", json=asked)).status_code == 202
    provider.open(HALF)
    await provider.reached(END, timeout=120)
    return session_id


def _script(provider: FakeProvider, task: str, replies: list[Any], summary: str = SUMMARY) -> None:
    script = Script(task, list(replies))

    def answer(request: RecordedRequest) -> Any:
        # The summary paraphrases the task, so later requests are recognized by the summary itself.
        return Reply(Text(summary, 12)) if asks_for_summary(request) else script(request)

    def concerns(request: RecordedRequest) -> bool:
        return script.concerns(request) or (task == TASK and any(summary[:80] in text for text in request.user_texts))

    provider.respond(answer, when=concerns)


AT_END = """() => {
  const { scrollHeight, clientHeight, scrollTop } = document.querySelector('[role="feed"]');
  return scrollHeight - clientHeight - scrollTop < 5;
}"""


async def _take(browser: Browser, url: str, session_id: str, scheme: Any) -> None:
    async with watched(browser, url, viewport=DESKTOP, color_scheme=scheme) as (context, _):
        page = await context.new_page()

        async def shoot(name: str) -> None:
            await page.screenshot(path=IMAGES / f"{name}-{scheme}.png")
            print(f"{name}-{scheme}.png")

        await page.goto("/")
        await expect(page.locator(f'[data-session-id="{session_id}"]')).to_be_visible()
        await expect(page.get_by_role("button", name="Approve")).to_be_visible()
        await shoot("sessions")
        await open_session(page, session_id)
        await expect(messages(page).last).to_contain_text("What is left is a note")
        plan = page.get_by_role("region", name="Plan")
        await plan.get_by_role("button").click()
        await expect(plan.get_by_role("listitem").last).to_be_visible()
        await page.wait_for_function(AT_END)
        await shoot("session")
        await tab(page, "Context").click()
        await expect(page.locator(".chart-text")).to_contain_text("Step")
        await expect(page.get_by_role("button", name="Compaction 1").first).to_be_visible()
        await shoot("context")
        await page.get_by_role("button", name="Compaction 1").first.click()
        summary = page.get_by_role("region", name="Summary of compaction 1")
        await expect(summary).to_be_visible()
        replaced = page.get_by_role("region", name="Messages replaced by compaction 1")
        await expect(replaced).to_contain_text("assistant")
        await page.locator("#round-1").evaluate("(row) => row.scrollIntoView({ block: 'start' })")
        await shoot("compaction")


async def _take_phone(browser: Browser, url: str, session_id: str) -> None:
    options: dict[str, Any] = {"viewport": PHONE, "device_scale_factor": 2, "has_touch": True, "color_scheme": "light"}
    async with watched(browser, url, **options) as (context, _):
        page = await context.new_page()
        await page.goto(link(session_id))
        await expect(messages(page).last).to_contain_text("What is left is a note")
        await page.screenshot(path=IMAGES / "session-phone.png")
        print("session-phone.png")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
