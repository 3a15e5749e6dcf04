/** What the model sees, as the API builds it for the next step or a past one, and what a place in it was made from. */

import { get, request, sessionPath } from "../core/http.js";
import { signal } from "../core/ui.js";

/** Bytes of a raw output that are shown; the rest is downloaded. */
export const SHOWN_BYTES = 65_536;
const PAGE = 100;

const held = new WeakMap();

/** The one such context of a session; what was loaded stays while other views are looked at. */
export function seenOf(state) {
  if (!held.has(state)) held.set(state, new SeenContext(state));
  return held.get(state);
}

export class SeenContext {
  /** The step whose request is shown; null is the next one. */
  step = signal(null);
  /** The answer of the API; null until the first. */
  data = signal(null);
  loading = signal(false);
  problem = signal(null);
  #state;
  #number = 0;

  constructor(state) {
    this.#state = state;
  }

  choose(step) {
    this.step.value = step;
    return this.load();
  }

  /** Loads what is chosen; an answer that was overtaken by another choice is dropped. */
  async load() {
    const number = ++this.#number;
    const { value: step } = this.step;
    this.loading.value = true;
    try {
      const query = step === null ? "" : `?step=${step}`;
      const data = await get(`${sessionPath(this.#state.id, "context")}${query}`);
      if (number !== this.#number) return;
      this.data.value = { ...data, messages: kept(this.data.value?.messages ?? [], data.messages) };
      this.problem.value = null;
    } catch (problem) {
      if (number === this.#number) this.problem.value = problem;
    } finally {
      if (number === this.#number) this.loading.value = false;
    }
  }
}

/** The new items, with the old object for each that is the same, so that its row need not be drawn again. */
function kept(old, items) {
  const known = new Map(old.map((item) => [item.message.id, item]));
  return items.map((item) => {
    const before = known.get(item.message.id);
    return before && JSON.stringify(before) === JSON.stringify(item) ? before : item;
  });
}

/** What makes up a context: `[{name, tokens, count}]`, estimated, in the order in which it is sent. */
export function makeUp({ system, tools, messages }) {
  const names = { summary: "Summaries", placeholder: "Placeholders", clip: "Clipped" };
  const groups = { Messages: [], Summaries: [], Clipped: [], Placeholders: [] };
  for (const item of messages) groups[names[item.reason] ?? "Messages"].push(item);
  const sum = (items) => items.reduce((total, { tokens }) => total + tokens, 0);
  return [
    { name: "System", tokens: system.tokens, count: 1 },
    { name: "Tools", tokens: sum(tools), count: tools.length },
    ...Object.entries(groups).map(([name, items]) => ({ name, tokens: sum(items), count: items.length })),
  ];
}

/** A message as it is stored; null where there is none of this id, as for one that only the request has. */
export async function storedMessage(sessionId, { id, seq }) {
  const page = await get(`${sessionPath(sessionId, "messages")}?after=${Math.max(0, seq - 1)}&limit=1`);
  return page.items.find((message) => message.id === id) ?? null;
}

/** The beginning of a call's raw output, as text: `{text, isWhole}`. */
export async function rawOutput(sessionId, callId) {
  const path = sessionPath(sessionId, "tool-calls", callId, "output");
  const call = await get(sessionPath(sessionId, "tool-calls", callId));
  const size = call.result?.bytes ?? 0;
  if (size === 0) return { text: "", isWhole: true, size };
  const response = await request("GET", path, { headers: { Range: `bytes=0-${SHOWN_BYTES - 1}` } });
  return { text: await response.text(), isWhole: size <= SHOWN_BYTES, size };
}

/** What a round has replaced, by pages: messages from the first to the last that it covers. */
export class Covered {
  messages = signal([]);
  isWhole = signal(false);
  #state;
  #range;
  #cursor = null;

  /** `range` has `first_message_id` and `last_message_id`; `steps` are the session's attempts. */
  constructor(state, range, steps) {
    this.#state = state;
    this.#range = range;
    this.steps = steps;
  }

  /** Loads so many more, or to the end. */
  async more() {
    this.#cursor ??= (await this.#firstSeq()) - 1;
    let started = this.messages.value.length > 0;
    const first = this.#range.first_message_id;
    for (;;) {
      const path = sessionPath(this.#state.id, "messages");
      const page = await get(`${path}?after=${Math.max(0, this.#cursor)}&limit=${PAGE}`);
      this.#cursor = page.next_cursor ?? Infinity;
      const from = started ? 0 : page.items.findIndex(({ id }) => id === first);
      if (from >= 0) {
        started = true;
        this.#take(page.items.slice(from));
      }
      if (page.next_cursor === null) this.isWhole.value = true;
      if (started || page.next_cursor === null) return;
    }
  }

  #take(items) {
    const end = items.findIndex(({ id }) => id === this.#range.last_message_id);
    if (end >= 0) this.isWhole.value = true;
    this.messages.value = [...this.messages.value, ...(end >= 0 ? items.slice(0, end + 1) : items)];
  }

  /** The place of the first message. The API gives messages by place and not by id; a step's request names both, and
   * the last one before the round has had what the round covers. Else the history is read from its beginning. */
  async #firstSeq() {
    const { first_message_id: first, created_at: time } = this.#range;
    const held = this.#state.transcript.message(first)?.peek().seq;
    if (held !== undefined) return held;
    const before = this.steps.findLast(({ started_at: started }) => !time || Date.parse(started) <= Date.parse(time));
    if (!before) return 1;
    const { messages } = await get(`${sessionPath(this.#state.id, "context")}?step=${before.step}`);
    return messages.find(({ message }) => message.id === first)?.message.seq ?? 1;
  }
}
