/** A session's events for the raw view: a stretch of the log that grows at its end as events come, while that is
 * wanted, and at its beginning by pages. */

import { get, sessionPath } from "../core/http.js";
import { batch, signal } from "../core/ui.js";

const PAGE = 200;
/** Events that are held; those farthest from what is read are let go beyond it. */
export const MOST = 10_000;

/** The names of durable events, by what they are about; the others are in no log. */
export const TYPES = {
  Session: [
    "session.created", "session.updated", "session.deleted", "session.running", "session.idle", "session.recovered",
  ],
  Messages: ["message.queued", "message.edited", "message.withdrawn", "message.dequeued", "message.created"],
  Steps: ["step.started", "step.retrying", "step.finished", "text.completed", "reasoning.completed", "plan.updated"],
  Tools: ["tool.call", "tool.result", "approval.requested", "approval.resolved"],
  Context: [
    "prune.completed", "compaction.started", "compaction.completed", "compaction.failed", "compaction.cancelled",
    "compaction.reverted", "compaction.discarded",
  ],
};

/** Events of some types, all of them where none is named. */
export class EventLog {
  /** Events that are held, oldest first: `{seq, type, data}`. */
  items = signal([]);
  hasEarlier = signal(false);
  /** Whether newer events than those that are held were let go. */
  hasLater = signal(false);
  loading = signal(false);
  problem = signal(null);
  #state;
  #types;
  /** The newest event that was looked at, whether or not its type is asked for. */
  #to = 0;
  #cursor = null;
  #begun = 0;
  #follower = null;

  constructor(state, types) {
    this.#state = state;
    this.#types = types;
  }

  /** Begins with what the stream has brought, and the page before it. */
  async start() {
    this.#begun += 1;
    this.#follower = this.#state.follower.peek();
    const live = this.#state.log.peek();
    const newest = live.at(-1)?.seq ?? this.#follower?.lastId ?? this.#state.session.peek().last_seq;
    batch(() => {
      this.items.value = ascending(live.filter(this.#isAsked));
      this.hasLater.value = false;
      this.#to = newest;
      this.#setCursor(String(live[0]?.seq ?? newest + 1));
    });
    await this.loadEarlier();
  }

  /** Takes what the stream has brought since. */
  follow(live) {
    if (live.length === 0 || this.hasLater.peek()) return;
    // More came at once than the stream's reader keeps, or the session was loaded anew, as from an earlier state of the
    // database: what is held fits no more. That a page of the log is ahead of the stream is nothing of the kind.
    if (live[0].seq > this.#to + 1 || this.#follower !== this.#state.follower.peek()) {
      this.start();
      return;
    }
    const fresh = live.filter(({ seq }) => seq > this.#to);
    if (fresh.length === 0) return;
    this.#to = live.at(-1).seq;
    const items = ascending([...this.items.peek(), ...fresh.filter(this.#isAsked)]);
    if (items.length > MOST) this.#setCursor(String(items.at(-MOST).seq));
    this.items.value = items.slice(-MOST);
  }

  /** How many of the stream's events have come that are not held yet. */
  waiting(live) {
    return live.filter((event) => event.seq > this.#to && this.#isAsked(event)).length;
  }

  async loadEarlier() {
    const begun = this.#begun;
    let found = 0;
    while (this.#cursor !== null && found === 0) {
      const page = await this.#page({ order: "desc", after: this.#cursor });
      if (page === null || begun !== this.#begun) return;
      found = page.items.length;
      batch(() => {
        this.#setCursor(page.next_cursor);
        this.#letGoLater(ascending([...page.items.toReversed(), ...this.items.peek()]));
      });
    }
  }

  #letGoLater(items) {
    this.items.value = items.slice(0, MOST);
    if (items.length <= MOST) return;
    this.hasLater.value = true;
    this.#to = this.items.peek().at(-1).seq;
  }

  async loadLater() {
    const begun = this.#begun;
    const page = await this.#page({ after: String(this.#to) });
    if (page === null || begun !== this.#begun) return;
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

  /** A page of the log; null where it cannot be had, or one is being loaded. */
  async #page(query) {
    if (this.loading.peek()) return null;
    this.loading.value = true;
    this.problem.value = null;
    const asked = new URLSearchParams({ ...query, limit: PAGE });
    if (this.#types.length) asked.set("types", this.#types.join(","));
    try {
      return await get(`${sessionPath(this.#state.id, "log")}?${asked}`);
    } catch (problem) {
      this.problem.value = problem;
      return null;
    } finally {
      this.loading.value = false;
    }
  }

  #isAsked = ({ type }) => this.#types.length === 0 || this.#types.includes(type);
}

/** The events without those that stand in them already: one may come with a page and with the stream. */
function ascending(events) {
  let last = 0;
  return events.filter(({ seq }) => {
    const isNew = seq > last;
    last = Math.max(last, seq);
    return isNew;
  });
}
