"""How the page handles responses and events, including ones that the real server never sends."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page

from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import module

pytestmark = [*IN_BROWSER]

SERVED = """
const SESSION = {
  id: "s", title: null, task: "t", status: "running", last_seq: 1, steps: 0,
  compaction: { in_progress: false }, queue: { pending: 0 },
};
const json = (body) => new Response(JSON.stringify(body));
/** Runs `act` with a fake server that serves these streams one after another, each `[[seq, type, data]]` with texts as
 * data sent unchanged, and `answers` by path suffix, or default responses. */
async function served(streams, answers, act) {
  const { fetch, console: { error } } = window;
  const errors = [];
  let opened = 0;
  console.error = (problem) => errors.push(problem.name);
  window.fetch = async (path, { signal }) => {
    if (path.endsWith("/events")) return new Response(streamed(streams[opened++] ?? [], signal));
    const [, answer] = Object.entries(answers).find(([name]) => path.endsWith(name)) ?? [];
    if (answer) return json(await answer());
    return json(path.includes("?") || !path.endsWith("/s") ? { items: [], last_seq: 1, next_cursor: null } : SESSION);
  };
  try {
    return { ...(await act()), errors };
  } finally {
    window.fetch = fetch;
    console.error = error;
  }
}
function streamed(events, signal) {
  const text = events.map(([seq, type, data]) => {
    const whole = typeof data === "string" ? data : JSON.stringify({ at: new Date().toISOString(), ...data });
    return `id: ${seq}\\nevent: ${type}\\ndata: ${whole}\\n\\n`;
  });
  return new ReadableStream({
    start(body) {
      body.enqueue(new TextEncoder().encode(text.join("")));
      signal.addEventListener("abort", () => body.error(signal.reason));
    },
  });
}
async function until(isSo) {
  const end = performance.now() + 10_000;
  while (!isSo()) {
    if (performance.now() > end) throw new Error(`not in time: ${isSo}`);
    await new Promise(requestAnimationFrame);
  }
}
"""


async def _state(page: Page, act: str, streams: Any = (), answers: str = "{}") -> Any:
    """The result of `act(state, until)` for a session state that follows these streams."""
    script = f"""async ({{ SessionState }}, streams) => {{
      {SERVED}
      const state = new SessionState("s");
      const act = {act};
      try {{
        return await served(streams, {answers}, () => act(state, until));
      }} finally {{
        state.close();
      }}
    }}"""
    return await module(page, "state/session.js", script, streams)


SEEN = """async (state, until) => {
  await state.open();
  await until(() => state.follower.value.lastId >= LAST);
  const { session, rounds, working } = state;
  return {
    live: state.follower.value.state.value,
    title: session.value.title,
    inProgress: session.value.compaction.in_progress,
    rounds: rounds.value.map(({ round, status, usage }) => [round, status, usage ?? null]),
    working: [...working.value.keys()],
  };
}"""


def _seen(last: int) -> str:
    return SEEN.replace("LAST", str(last))


async def test_an_invalid_event_does_not_block_the_others(bare: Page) -> None:
    updated = {"session": {"title": "After it"}}
    stream = [[2, "plan.updated", "no JSON"], [3, "message.created", {}], [4, "session.updated", updated]]

    found = await _state(bare, _seen(4), [stream])

    assert found["errors"] == ["SyntaxError", "TypeError"]
    assert (found["title"], found["live"]) == ("After it", "live")


@pytest.mark.parametrize(
    ("events", "in_progress"),
    [
        ([("started", {"round": 1, "background": False})], True),
        ([("started", {"round": 1, "background": True})], False),
        ([("started", {"round": 1, "background": False}), ("completed", {"round": 1, "outputs_pruned": 0})], False),
        (
            [
                ("started", {"round": 1, "background": True}),
                ("started", {"round": 2, "background": False}),
                ("discarded", {"round": 1}),
            ],
            True,
        ),
        (
            [
                ("started", {"round": 1, "background": True}),
                ("started", {"round": 2, "background": False}),
                ("cancelled", {"round": 2}),
            ],
            False,
        ),
    ],
    ids=["one", "in the background", "completed", "next to one in the background", "before one in the background"],
)
async def test_a_round_is_in_progress_for_as_long_as_the_session_waits_for_it(
    bare: Page, events: list[tuple[str, dict[str, Any]]], in_progress: bool
) -> None:
    stream = [[seq, f"compaction.{name}", data] for seq, (name, data) in enumerate(events, start=2)]

    found = await _state(bare, _seen(1 + len(events)), [stream])

    assert (found["inProgress"], found["errors"]) == (in_progress, [])


async def test_the_usage_of_a_failed_round_is_not_that_of_its_last_rung(bare: Page) -> None:
    used = {"cost_usd": 1}
    stream = [
        [2, "compaction.failed", {"round": 1, "rung": 1, "usage": used, "next": 2}],
        [3, "compaction.failed", {"round": 1, "rung": 2, "usage": used, "next": None}],
        [4, "compaction.started", {"round": 2, "background": False}],
        [5, "compaction.failed", {"round": 2, "rung": 1, "usage": used, "next": None}],
        [6, "compaction.started", {"round": 3, "background": True}],
        [7, "compaction.discarded", {"round": 3, "usage": used}],
    ]
    running = (
        '{"/compactions": () => ({ last_seq: 1, items: [{ round: 1, status: "running", usage: { cost_usd: 5 } }] })}'
    )

    found = await _state(bare, _seen(7), [stream], running)

    assert found["rounds"] == [[1, "failed", {"cost_usd": 5}], [2, "failed", None], [3, "discarded", used]]
    assert found["working"] == []


async def test_a_reloaded_session_drops_its_live_data(bare: Page) -> None:
    stream = [
        [2, "step.started", {"step": 1, "attempt": 1, "message_id": "m", "context": {}}],
        [3, "plan.updated", {"items": [{"text": "Look"}]}],
        [4, "prune.completed", {"call_ids": []}],
        [5, "step.retrying", {"message_id": "m", "attempt": 1, "delay_ms": 60_000, "code": "c", "detail": "d"}],
    ]
    script = """async (state, until) => {
      const held = () => [
        ...[state.steps.value.size, state.prunes.value.length, state.log.value.length],
        ...[state.plan.value, state.retrying.value],
      ];
      await state.open();
      await until(() => state.follower.value.lastId === 5);
      const before = held();
      await state.reload();
      return { before, after: held() };
    }"""

    found = await _state(bare, script, [stream])

    assert all(found["before"])
    assert found["after"] == [0, 0, 0, None, None]


async def test_only_the_newest_live_steps_are_kept(bare: Page) -> None:
    steps = range(1, 601)
    stream = [
        [step + 1, "step.started", {"step": step, "attempt": 1, "message_id": f"m{step}", "context": {}}]
        for step in steps
    ]
    script = """async (state, until) => {
      await state.open();
      await until(() => state.follower.value.lastId === 601);
      return { kept: [...state.steps.value.values()].map(({ step }) => step), news: state.stepNews.value };
    }"""

    found = await _state(bare, script, [stream])

    assert found["kept"] == [*steps][-500:]
    assert found["news"] == 600


async def test_a_page_of_the_log_may_be_ahead_of_the_stream(bare: Page) -> None:
    script = """async ({ EventLog }) => {
      const { signal } = await import("/static/core/ui.js");
      const event = (seq) => ({ seq, type: "t", data: {} });
      const events = (from, to) => Array.from({ length: to - from + 1 }, (_, index) => event(from + index));
      const state = { id: "s", log: signal(events(5, 8)), follower: signal({}), session: signal({ last_seq: 8 }) };
      const pages = [
        { items: events(1, 4).reverse(), next_cursor: null, last_seq: 10 },
        { items: [9, 10].map(event), next_cursor: null, last_seq: 10 },
        { items: [2, 1].map(event), next_cursor: null, last_seq: 3 },
      ];
      const { fetch } = window;
      window.fetch = async () => new Response(JSON.stringify(pages.shift()));
      const log = new EventLog(state, []);
      const held = () => log.items.value.map(({ seq }) => seq);
      try {
        await log.start();
        await log.loadLater();
        log.follow(state.log.value);
        log.follow((state.log.value = events(5, 11)));
        const ahead = held();
        state.log.value = [event(3)];
        state.follower.value = {};
        log.follow(state.log.value);
        while (log.loading.value) await new Promise(requestAnimationFrame);
        return { ahead, anew: held(), left: pages.length };
      } finally {
        window.fetch = fetch;
      }
    }"""

    found = await module(bare, "state/event_log.js", script)

    assert found["ahead"] == [*range(1, 12)]
    assert (found["left"], found["anew"]) == (0, [1, 2, 3])


async def test_the_servers_clock_is_updated_with_each_response(bare: Page) -> None:
    script = """async ({ get, serverNow }) => {
      const { fetch } = window;
      const ahead = [];
      try {
        for (const seconds of [-3600, 3600, 0]) {
          const Date_ = new Date(Date.now() + seconds * 1000).toUTCString();
          window.fetch = async () => new Response("{}", { headers: { Date: Date_ } });
          await get("/");
          ahead.push(Math.round((serverNow() - Date.now()) / 60_000));
        }
        return ahead;
      } finally {
        window.fetch = fetch;
      }
    }"""

    assert await module(bare, "core/http.js", script) == [-60, 60, 0]


async def test_retries_back_off_and_respect_retry_after(bare: Page) -> None:
    script = """({ Backoff }) => {
      const patience = new Backoff();
      const waits = Array.from({ length: 12 }, () => patience.next(null));
      patience.reset();
      return { waits, asked: patience.next({ retryAfterS: 60 }), again: patience.next({ retryAfterS: null }) };
    }"""

    found = await module(bare, "core/backoff.js", script)

    assert found["waits"][0] < 1_000 < found["waits"][3]
    assert all(7_000 < wait < 13_000 for wait in found["waits"][6:])
    assert found["asked"] == 60_000
    assert found["again"] < 2_000


@pytest.mark.parametrize("where", ["head", "body"])
async def test_a_response_that_hangs_is_aborted(page: Page, where: str) -> None:
    await page.context.route("**/empty", lambda route: route.fulfill(content_type="text/html", body="<!doctype html>"))
    await page.clock.install()
    await page.goto("/empty")
    script = """({ get, ANSWER_MS }, where) => {
      window.fetch = async (path, { signal }) => {
        const hangs = new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
        if (where === "head") return hangs;
        const body = new ReadableStream({
          start(out) {
            out.enqueue(new TextEncoder().encode('{"a":'));
            hangs.catch((reason) => out.error(reason));
          },
        });
        return new Response(body);
      };
      window.answer = get("/").catch(({ status, code, mayPass }) => ({ status, code, mayPass }));
      return ANSWER_MS;
    }"""
    wait = await module(page, "core/http.js", script, where)

    await page.clock.fast_forward(wait + 1)

    assert await page.evaluate("window.answer") == {"status": 0, "code": "timeout", "mayPass": True}
