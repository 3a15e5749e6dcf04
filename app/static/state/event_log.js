/** A session's events for the events view: a range of the log that grows at its end with new events while it is
 * followed, and at its beginning page by page. */

import { get, sessionPath } from "../core/http.js";
import { batch, signal } from "../core/ui.js";

const PAGE = 200;
/** The maximum number of loaded events; beyond it, those farthest from the current view are dropped. */
export const MOST = 10_000;

/** The types of durable events, by topic; other events are not in the log. */
export const TYPES = {
  Session: [
    "session.created", "session.updated", "session.deleted", "session.running", "session.idle", "session.recovered",
    "source.started", "source.completed", "source.failed",
  ],
  Messages: ["message.queued", "message.edited", "message.withdrawn", "message.dequeued", "message.created"],
  Steps: ["step.started", "step.retrying", "step.finished", "text.completed", "reasoning.completed", "plan.updated"],
  Tools: [
    "tool.call", "tool.result", "approval.requested", "approval.resolved", "command.started", "command.ended",
    "subagent.started", "subagent.finished", "mcp.ready", "mcp.failed",
  ],
  Workspace: ["checkpoint.failed", "workspace.restored"],
  Context: [
    "prune.completed", "compaction.started", "compaction.completed", "compaction.failed", "compaction.retrying",
    "compaction.cancelled", "compaction.reverted", "compaction.discarded",
  ],
};

/** Events of the given types, or of all types if there are none. */
export class EventLog {
  /** The loaded events, oldest first: `{seq, type, data}`. */
  items = signal([]);
  hasEarlier = signal(false);
  /** Whether newer events were dropped. */
  hasLater = signal(false);
  loading = signal(false);
  problem = signal(null);
  #state;
  #types;
  /** The seq of the newest event seen, of any type. */
  #to = 0;
  #cursor = null;
  #starts = 0;
  #follower = null;

  constructor(state, types) {
    this.#state = state;
    this.#types = types;
  }

  /** Starts with the events received from the stream, and the page before them. */
  async start() {
    this.#starts += 1;
    this.#follower = this.#state.follower.peek();
    const live = this.#state.log.peek();
    const newest = live.at(-1)?.seq ?? this.#follower?.lastId ?? this.#state.session.peek().last_seq;
    batch(() => {
      this.items.value = ascending(live.filter(this.#isWanted));
      this.hasLater.value = false;
      this.#to = newest;
      this.#setCursor(String(live[0]?.seq ?? newest + 1));
    });
    await this.loadEarlier();
  }

  /** Adds new events from the stream. */
  follow(live) {
    if (live.length === 0 || this.hasLater.peek()) return;
    // More events arrived at once than the session state keeps, or the session was reloaded, possibly from an earlier
    // state of the database: start again. A page of the log that is ahead of the stream is fine.
    if (live[0].seq > this.#to + 1 || this.#follower !== this.#state.follower.peek()) {
      this.start();
      return;
    }
    const fresh = live.filter(({ seq }) => seq > this.#to);
    if (fresh.length === 0) return;
    this.#to = live.at(-1).seq;
    const items = ascending([...this.items.peek(), ...fresh.filter(this.#isWanted)]);
    if (items.length > MOST) this.#setCursor(String(items.at(-MOST).seq));
    this.items.value = items.slice(-MOST);
  }

  /** How many of the stream's events are not loaded yet. */
  waiting(live) {
    return live.filter((event) => event.seq > this.#to && this.#isWanted(event)).length;
  }

  async loadEarlier() {
    const start = this.#starts;
    let found = 0;
    while (this.#cursor !== null && found === 0) {
      const page = await this.#page({ order: "desc", after: this.#cursor });
      if (page === null || start !== this.#starts) return;
      found = page.items.length;
      batch(() => {
        this.#setCursor(page.next_cursor);
        this.#dropLater(ascending([...page.items.toReversed(), ...this.items.peek()]));
      });
    }
  }

  #dropLater(items) {
    this.items.value = items.slice(0, MOST);
    if (items.length <= MOST) return;
    this.hasLater.value = true;
    this.#to = this.items.peek().at(-1).seq;
  }

  async loadLater() {
    const start = this.#starts;
    const page = await this.#page({ after: String(this.#to) });
    if (page === null || start !== this.#starts) return;
    batch(() => {
      const items = ascending([...this.items.peek(), ...page.items]);
      if (items.length > MOST) this.#setCursor(String(items.at(-MOST).seq));
      this.items.value = items.slice(-MOST);
      this.#to = page.next_cursor === null ? page.last_seq : Number(page.next_cursor);
      this.hasLater.value = page.next_cursor !== null;
    });
  }

  #setCursor(cursor) {
    this.#cursor = cursor;
    this.hasEarlier.value = cursor !== null && Number(cursor) !== 1;
  }

  /** A page of the log; null if it fails to load, or if another one is loading. */
  async #page(query) {
    if (this.loading.peek()) return null;
    this.loading.value = true;
    this.problem.value = null;
    const params = new URLSearchParams({ ...query, limit: PAGE });
    if (this.#types.length) params.set("types", this.#types.join(","));
    try {
      return await get(`${sessionPath(this.#state.id, "log")}?${params}`);
    } catch (problem) {
      this.problem.value = problem;
      return null;
    } finally {
      this.loading.value = false;
    }
  }

  #isWanted = ({ type }) => this.#types.length === 0 || this.#types.includes(type);
}

/** The events without duplicates: an event may come with a page and with the stream. */
function ascending(events) {
  let last = 0;
  return events.filter(({ seq }) => {
    const isNew = seq > last;
    last = Math.max(last, seq);
    return isNew;
  });
}
