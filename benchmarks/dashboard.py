"""The page in a browser: how fast a long session appears, how smoothly it scrolls, how soon the list shows a change,
how much memory a long stream takes.

    python -m benchmarks.dashboard

Needs Debian's Chromium and the development tools. Without a GPU the browser renders in software, so frames are slower
than on a desktop.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, CDPSession, Page, async_playwright

from benchmarks.http import Connection
from benchmarks.processes import PROVIDER, Server, start_service, start_source
from benchmarks.report import Result, machine, notes, table
from benchmarks.stats import median, percentile

MIB = 1024 * 1024
MESSAGES = 10_000
SCROLL_MS = 4_000
SCROLL_STEP = 120
"""Pixels a frame, as fast as anyone turns a wheel: 7,200 px a second."""

TOKENS_A_STEP, RATE = 1_000, 2_000
ENDLESS = f"work-{RATE}-{TOKENS_A_STEP}"

RUNNING, INBOX_S, CHANGES = 30, 10, 40
"""Sessions that run while the list is open, seconds for which its CPU time is measured, and changes that are timed."""
BUSY = "work-20-100"

APPEARANCES = """
new MutationObserver(() => {
  const { dataset } = document.documentElement;
  for (const [, number] of document.body.textContent.matchAll(/changed-([0-9]+)-/g)) dataset[number] ??= Date.now();
}).observe(document.body, { childList: true, characterData: true, subtree: true });
"""

FIRST_CONTENT = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("[data-message-id]")) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => console.info("shown", performance.now())));
}).observe(document, { childList: true, subtree: true });
"""
FIRST_ROW = FIRST_CONTENT.replace("[data-message-id]", ".session-row")
SCROLL = """async ([ms, step]) => {
  const box = document.querySelector('[role="feed"]');
  const frames = [];
  const end = performance.now() + ms;
  let last = await new Promise(requestAnimationFrame);
  while (last < end) {
    box.scrollTop -= step;
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  return frames;
}"""


def history(messages: int) -> list[dict[str, str]]:
    """A conversation to import, with Markdown answers of varying length."""
    answer = "Here is *what* I did:\n\n- changed `app.py`\n- ran the tests\n\n```python\nprint({0})\n```\n\n"
    return [
        {"role": "user", "content": f"Question {number}, please."}
        if number % 2 == 0
        else {"role": "assistant", "content": answer.format(number) + "And so on, and on. " * (number % 60)}
        for number in range(messages)
    ]


@asynccontextmanager
async def opened(browser: Browser, server: Server, session_id: str) -> AsyncIterator[tuple[Page, CDPSession, float]]:
    """A session's conversation in a fresh profile, a meter of its CPU time, and when it was shown."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    await context.add_init_script(FIRST_CONTENT)
    page = await context.new_page()
    page.on("pageerror", lambda error: print(f"error in the page: {error}", file=sys.stderr))
    meter = await context.new_cdp_session(page)
    await meter.send("Performance.enable", {"timeDomain": "threadTicks"})
    shown = await shown_at(page, f"http://127.0.0.1:{server.port}/#/sessions/{session_id}")
    yield page, meter, shown
    await context.close()


async def measure_long_session(browser: Browser, server: Server, messages: int, rounds: int) -> list[Result]:
    """Time to the first message, and frame times while scrolling up."""
    async with Connection(server.port) as connection:
        body = {"model": f"{PROVIDER}/{ENDLESS}", "history": {"format": "openai", "messages": history(messages)}}
        session_id = (await connection.ask("POST", "/v1/sessions", body))["id"]
    first, frames = [], []
    opening = scrolling = 0.0
    for _ in range(rounds):
        async with opened(browser, server, session_id) as (page, meter, shown):
            first.append(shown)
            opening += (begun := await processor_ms(meter))
            frames += await page.evaluate(SCROLL, [SCROLL_MS, SCROLL_STEP])
            scrolling += await processor_ms(meter) - begun
    note = f"The page's main thread used {opening / rounds:.0f} ms of CPU time."
    frame_note = (
        f"{len(frames)} frames in {rounds} rounds; the longest took {max(frames):.0f} ms. The page's main thread used"
        f" {scrolling / len(frames):.1f} ms of CPU time for each."
    )
    return [
        Result(f"First content of {messages:,} messages", median(first), "ms", 1_000, note=note),
        Result("A frame while scrolling, mean", sum(frames) / len(frames), "ms", 20, note=frame_note),
        Result("A frame while scrolling, 95 of 100", percentile(frames, 0.95), "ms", 34),
    ]


async def measure_first_visit(browser: Browser, server: Server, rounds: int) -> list[Result]:
    """What a browser that was never here fetches for the list of sessions, and when it shows the first one."""
    shown: list[float] = []
    fetched: list[dict[str, Any]] = []
    for _ in range(rounds):
        context = await browser.new_context(viewport={"width": 1280, "height": 800})
        await context.add_init_script(FIRST_ROW)
        page = await context.new_page()
        fetched.clear()
        network = await context.new_cdp_session(page)
        for event in ("responseReceived", "loadingFinished"):
            network.on(f"Network.{event}", lambda event: fetched.append(event))
        await network.send("Network.enable")
        shown.append(await shown_at(page, f"http://127.0.0.1:{server.port}/"))
        await context.close()
    files = [event for event in fetched if "response" in event and "/v1/" not in event["response"]["url"]]
    size = sum(event.get("encodedDataLength", 0) for event in fetched)
    return [
        Result("Files of a first visit", len(files), "", 5),
        Result("Bytes of a first visit, with its data", size / 1000, "kB", 250),
        Result("First session in the list", median(shown), "ms", 300),
    ]


async def measure_inbox(browser: Browser, server: Server) -> list[Result]:
    """The list of sessions while many of them run: its CPU time, and how soon it shows a change."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    page = await context.new_page()
    meter = await context.new_cdp_session(page)
    await meter.send("Performance.enable", {"timeDomain": "threadTicks"})
    async with Connection(server.port) as connection:
        body = {"model": f"{PROVIDER}/{BUSY}", "task": "go", "limits": {"max_steps": 1_000_000}}
        ids = [(await connection.ask("POST", "/v1/sessions", body))["id"] for _ in range(RUNNING)]
        await page.goto(f"http://127.0.0.1:{server.port}/")
        await page.locator(".session-row").nth(RUNNING - 1).wait_for()
        begun = await processor_ms(meter)
        await asyncio.sleep(INBOX_S)
        used_ms = await processor_ms(meter) - begun
        await page.evaluate(APPEARANCES)
        delays = []
        for number in range(CHANGES):
            sent = time.time() * 1000
            change = {"title": f"changed-{number}-"}
            await connection.ask("PATCH", f"/v1/sessions/{ids[number % RUNNING]}", change)
            await page.wait_for_selector(f"html[data-{number}]")
            delays.append(float(await page.locator("html").get_attribute(f"data-{number}") or "nan") - sent)
        for session_id in ids:
            await connection.ask("POST", f"/v1/sessions/{session_id}/cancel", {})
    await context.close()
    note = f"{CHANGES} titles changed one after the other, from the request to the row; median {median(delays):.0f} ms."
    share = f"The page's main thread over {INBOX_S} s; each streams 20 tokens per second and makes a call every 5 s."
    return [
        Result(f"List with {RUNNING} running sessions, CPU", used_ms / INBOX_S / 10, "%", 20, note=share),
        Result(f"List with {RUNNING} running sessions, a change", max(delays), "ms", 200, note=note),
    ]


async def shown_at(page: Page, url: str) -> float:
    """Opens the page, and returns the milliseconds from the navigation to the first content. The page logs them: to
    search it for an element, Playwright runs 15 ms of its own script in it, before the content is there."""
    async with page.expect_console_message(lambda message: message.text.startswith("shown ")) as logged:
        await page.goto(url, wait_until="commit")
    return float((await logged.value).text.split()[1])


async def processor_ms(meter: CDPSession) -> float:
    """CPU milliseconds used by the page's main thread since the page was opened."""
    metrics = (await meter.send("Performance.getMetrics"))["metrics"]
    return 1000 * float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


async def heap_of(page: Page) -> float:
    """Bytes of the page's JavaScript heap after a garbage collection."""
    session = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.collectGarbage")
    await session.send("Performance.enable")
    metrics = (await session.send("Performance.getMetrics"))["metrics"]
    await session.detach()
    return float(next(metric["value"] for metric in metrics if metric["name"] == "JSHeapUsedSize"))


async def measure_stream(browser: Browser, server: Server, deltas: int) -> list[Result]:
    """Heap growth while a session streams, in total and in the second half."""
    steps = deltas // TOKENS_A_STEP
    async with Connection(server.port) as connection:
        body = {"model": f"{PROVIDER}/{ENDLESS}", "task": "go", "limits": {"max_steps": steps}}
        session_id = (await connection.ask("POST", "/v1/sessions", body))["id"]
    async with opened(browser, server, session_id) as (page, _, _):
        before = await heap_of(page)
        readings = [before]
        while not await page.locator(".session-head .badge").get_by_text("limit reached").count():
            await asyncio.sleep(1)
            readings.append(await heap_of(page))
    half = median(readings[len(readings) // 2 - 1 : len(readings) // 2 + 2])
    note = f"From {before / MIB:.1f} MiB to {readings[-1] / MIB:.1f} MiB; read {len(readings)} times."
    return [
        Result(f"Heap after {deltas:,} deltas", readings[-1] / MIB, "MiB", 100, note=note),
        Result("Heap at its highest", max(readings) / MIB, "MiB", 150),
        Result("Heap gained in the second half", max(0.0, readings[-1] - half) / MIB, "MiB", 25),
    ]


async def measure(options: argparse.Namespace) -> list[Result]:
    async with (
        start_source() as source,
        start_service(source, endless=(ENDLESS, BUSY)) as server,
        async_playwright() as playwright,
    ):
        browser = await playwright.chromium.launch(
            executable_path=options.browser,
            args=["--no-sandbox", "--disable-background-networking", "--enable-precise-memory-info"],
        )
        results = await measure_long_session(browser, server, options.messages, options.rounds)
        results += await measure_first_visit(browser, server, options.rounds)
        results += await measure_inbox(browser, server)
        results += await measure_stream(browser, server, options.deltas)
        await browser.close()
        return results


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dashboard",
        description="Measures the page in Chromium: a first visit, first content and scrolling of a long session,"
        " the list while sessions run, memory while one streams.",
    )
    parser.add_argument("--browser", default="/usr/bin/chromium", help="Chromium's program (default: %(default)s)")
    parser.add_argument(
        "--messages", type=int, default=MESSAGES, help="messages of the long session (default: %(default)s)"
    )
    parser.add_argument("--deltas", type=int, default=100_000, help="deltas of the stream (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of opening and scrolling (default: %(default)s)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    size = machine()
    results = asyncio.run(measure(parse(arguments)))
    print(", ".join(f"{name} {value}" for name, value in size.items()))
    print(f"\n{table(results)}\n\n{notes(results)}")
    return 0 if all(result.met for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
