/** The model's view, as the API builds it for the next or a past step, and the stored messages behind it. */

import { get, request, sessionPath } from "../core/http.js";
import { signal } from "../core/ui.js";

/** Bytes of an original output that are shown; the rest can be downloaded. */
export const SHOWN_BYTES = 65_536;
const PAGE = 100;

const held = new WeakMap();

/** The model's view of a session; loaded data is kept while other views are shown. */
export function seenOf(state) {
  if (!held.has(state)) held.set(state, new SeenContext(state));
  return held.get(state);
}

export class SeenContext {
  /** The step whose request is shown; null for the next step. */
  step = signal(null);
  /** The API's response; null until the first. */
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

  /** Loads the chosen step; the response is dropped if another one was chosen meanwhile. */
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

/** The new items, with the old object for each unchanged one, so that its row is not rerendered. */
function kept(old, items) {
  const known = new Map(old.map((item) => [item.message.id, item]));
  return items.map((item) => {
    const before = known.get(item.message.id);
    return before && JSON.stringify(before) === JSON.stringify(item) ? before : item;
  });
}

/** The contents of a context by kind: `[{name, tokens, count}]`, tokens estimated, in the order in which they are sent.
 * */
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

/** The stored message with this id; null for a message that only exists in the request. */
export async function storedMessage(sessionId, { id, seq }) {
  const page = await get(`${sessionPath(sessionId, "messages")}?after=${Math.max(0, seq - 1)}&limit=1`);
  return page.items.find((message) => message.id === id) ?? null;
}

/** The beginning of a call's original output, as text: `{text, isWhole, size}`. */
export async function rawOutput(sessionId, callId) {
  const path = sessionPath(sessionId, "tool-calls", callId, "output");
  const call = await get(sessionPath(sessionId, "tool-calls", callId));
  const size = call.result?.bytes ?? 0;
  if (size === 0) return { text: "", isWhole: true, size };
  const response = await request("GET", path, { headers: { Range: `bytes=0-${SHOWN_BYTES - 1}` } });
  return { text: await response.text(), isWhole: size <= SHOWN_BYTES, size };
}

/** The messages replaced by a round, from the first to the last that it covers, loaded by page. */
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

  /** Loads the next page. */
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

  /** The seq of the first message. The API pages messages by seq, not by id; a step's request has both, and the last
   * step before the round contains the messages that it covers. Otherwise the history is read from its beginning. */
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
