"""The transcript follows the newest message until the user scrolls away, and again when they send a message."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from tests.behavior.harness import Client
from tests.dashboard import IN_BROWSER
from tests.dashboard.browser import module
from tests.dashboard.places import messages, open_session, say
from tests.dashboard.site import Site
from tests.provider import Reply, Text

pytestmark = [*IN_BROWSER]

ROUNDS = """async ({ ConversationView }, [id, rounds]) => {
  const [{ html, render }, { SessionState }, { apply }] = await Promise.all(
    ["core/ui.js", "state/session.js", "state/session_events.js"].map((path) => import(`/static/${path}`)),
  );
  const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "/static/styles/page.css" });
  await new Promise((done) => document.head.append(Object.assign(style, { onload: done })));
  const place = Object.assign(document.createElement("div"), { id: "page" });
  document.body.append(place);
  const state = new SessionState(id);
  await state.open();
  render(html`<main class="view conversation"><${ConversationView} state=${state} /></main>`, place);
  const box = place.querySelector(".transcript-box");
  // The same numbers each time.
  let seed = 7;
  const random = (below) => (seed = (seed * 16807) % 2147483647) % below;
  // Events arrive between frames, not in them.
  const frames = async (count) => {
    for (let left = count; left > 0; left -= 1) await new Promise(requestAnimationFrame);
    await new Promise((done) => setTimeout(done));
  };
  let seq = state.session.value.last_seq;
  const context = { tokens: 10, limit: 100, usable: 80, source: "estimated" };
  const event = async (type, data) => {
    seq += 1;
    const isLive = /delta$|output$/.test(type);
    apply(state, { seq: isLive ? null : seq, type, data: { at: new Date().toISOString(), ...data } });
    await frames(Math.max(0, random(4) - 1));
  };
  const lost = [];
  const isAtEnd = () => box.scrollHeight - box.clientHeight - box.scrollTop < 5;
  const check = async (what) => {
    for (let left = 30; left > 0 && !isAtEnd(); left -= 1) await frames(1);
    const isFollowed = state.transcript.reading.isFollowed;
    if (!isAtEnd() || !isFollowed) lost.push(`${what}: ${isFollowed ? "behind" : "left"}`);
    state.transcript.reading.follow(true);
  };
  const image = (message, number) => {
    const picture = { width: 40, height: 200 + number, media_type: "image/png" };
    return { type: "image", id: `i${message}`, index: 9, of_call: `c${message}`, ...picture };
  };
  async function step(number, attempt) {
    const at = { message_id: `m${number}.${attempt}`, step: number, attempt, context };
    await event("step.started", at);
    const part = { message_id: at.message_id, part_id: `p${number}.${attempt}`, index: 0 };
    let offset = 0;
    for (let left = 1 + random(4); left > 0; left -= 1) {
      const text = "word ".repeat(20 + random(300)) + "\\n\\n";
      await event("text.delta", { ...part, offset, text });
      offset += text.length;
    }
    at.finish = () => event("text.completed", { ...part, text: "word ".repeat(offset / 5), interrupted: false });
    const queued = { message_id: `q${seq}`, mode: "steer", content: "Later", position: 1 };
    if (random(3) === 0) await event("message.queued", queued);
    return at;
  }
  // A window or an on-screen keyboard changes the height of the page.
  const resize = () => (place.style.height = `${420 + random(300)}px`);
  async function call(number, at) {
    const ids = { message_id: at.message_id, part_id: `t${number}`, index: 1, call_id: `c${number}` };
    await event("tool.call", { ...ids, name: "execute_command", arguments: { command: "make" } });
    await event("approval.requested", { ...ids, name: "execute_command", arguments: { command: "make\\n".repeat(9) } });
    await check("approval");
    await event("approval.resolved", { call_id: ids.call_id, decision: "approve" });
    await event("tool.output", { call_id: ids.call_id, offset: 0, text: "line\\n".repeat(20) });
    const result = { status: "error", output: "line\\n".repeat(40), bytes: 200, duration_ms: 5, exit_code: 2 };
    await event("tool.result", {
      ...{ ...ids, message_id: `r${number}`, part_id: `u${number}`, name: "execute_command", ...result },
      images: random(2) ? [image(number, random(100))] : [],
    });
  }
  apply(state, { seq, type: "session.running", data: {} });
  for (let number = 1; number <= rounds; number += 1) {
    let at = await step(number, 1);
    for (let attempt = 2; random(3) > 0 && attempt < 5; attempt += 1) {
      const failure = { delay_ms: 9_000, code: "overloaded", detail: "The provider is busy. ".repeat(9) };
      await event("step.retrying", { ...at, ...failure });
      resize();
      at = await step(number, attempt);
      await check("retry");
    }
    await at.finish();
    await call(number, at);
    resize();
    await event("step.finished", { ...at, finish_reason: "tool_calls", usage: null });
    if (random(2)) for (const { id: message_id } of state.queue.value) await event("message.withdrawn", { message_id });
    await check("step");
  }
  // A user who scrolls up is not followed, even while the text grows.
  await step(rounds + 1, 1);
  await frames(5);
  box.scrollTop -= 300;
  await frames(3);
  const isLeft = !state.transcript.reading.isFollowed;
  state.close();
  render(null, place);
  return { lost, isLeft, height: box.scrollHeight };
}"""


@pytest.mark.slow
async def test_nothing_but_the_user_stops_following(bare: Page, client: Client) -> None:
    """Retries, queued messages, approvals, results and images change the heights of the list and of its rows."""
    session_id = (await client.create())["id"]
    await bare.set_viewport_size({"width": 1280, "height": 800})

    found = await module(bare, "views/conversation.js", ROUNDS, [session_id, 10])

    assert found["lost"] == []
    assert found["isLeft"]


async def test_sending_scrolls_to_the_end(page: Page, site: Site, client: Client) -> None:
    task = site.task("Long", Reply(Text("Line.\n\n" * 80)), Reply(Text("Short.")))
    made = await client.create(task)
    await client.until_idle(made["id"])
    await open_session(page, made["id"])
    await expect(messages(page).last).to_contain_text("Line.")
    jump = page.get_by_role("button", name=re.compile("Jump to newest"))
    await page.get_by_role("feed", name="Messages").evaluate("(box) => { box.scrollTop -= 500; }")
    await expect(jump).to_be_visible()

    await say(page, "Go on.")

    await expect(jump).to_be_hidden()
    await expect(messages(page).last).to_contain_text("Short.")
    await expect(messages(page).last).to_be_in_viewport()
