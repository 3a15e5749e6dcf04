/** The list of sessions: API pages, kept up to date by the event stream of all sessions.
 *
 * That stream reports starts and ends, not every step, and has no ids. So an event updates its row at once and reloads
 * it; rows of running sessions are reloaded every few seconds; and each new connection reloads the list.
 */

import { Follower } from "../core/follow.js";
import { get, sessionPath } from "../core/http.js";
import { batch, effect, signal, untracked } from "../core/ui.js";
import { matches, place } from "./session_order.js";

const PAGE = 50;
/** The API's maximum page size. */
const LARGEST_PAGE = 500;
/** How long events are collected before their rows are reloaded, in ms: a starting or ending run has several. */
const GATHER_MS = 200;
/** How often the rows of running sessions are reloaded, in ms: about as often as they make a new step. */
const RUNNING_MS = 5_000;

export class SessionList {
  /** Sessions, newest first. */
  items = signal([]);
  nextCursor = signal(null);
  loading = signal(true);
  /** Whether a page has been loaded for the current filter. */
  loaded = signal(false);
  problem = signal(null);
  /** The filter: `status` ("" for all) and `q`, a text. */
  filter = signal({ status: "", q: "" });
  follower = signal(null);
  /** Called with `(session, before)` when the status of a session in the list changes. */
  onStatus = () => {};
  #request = 0;
  /** Ids of rows to reload. */
  #stale = new Set();
  #refreshing = false;
  /** Events received while the list is loading, which it may not include; null when it is not loading. */
  #missed = null;
  #timer = null;
  #unwatch = () => {};

  open() {
    this.follower.value = new Follower("/v1/events", {
      onEvents: (events) => this.#take(events),
      onConnected: () => this.load({ keep: true }),
      onLost: (problem) => (this.problem.value = problem),
    });
    this.#timer = setInterval(() => this.#refreshRunning(), RUNNING_MS);
    this.#unwatch = effect(() => {
      const { value: state } = this.follower.value.state;
      // The server may still serve the list when it has no stream left.
      if (state === "offline" && !this.loaded.peek()) untracked(() => this.load());
    });
  }

  close() {
    this.follower.value?.stop();
    clearInterval(this.#timer);
    this.#unwatch();
    this.#stale.clear();
    this.#request += 1;
  }

  /** Loads the list for the filter: its first page, or with `keep` about as many sessions as are loaded. */
  async load({ keep = false } = {}) {
    const wanted = keep ? Math.max(PAGE, this.items.value.length) : PAGE;
    this.#missed = [];
    await this.#loading(async (isCurrent) => {
      const items = [];
      let cursor = null;
      do {
        const page = await get(this.#path(cursor, Math.min(LARGEST_PAGE, wanted - items.length)));
        if (!isCurrent()) return;
        items.push(...page.items);
        cursor = page.next_cursor;
      } while (cursor !== null && items.length < wanted);
      this.#replace(items, cursor);
    });
  }

  /** Loads the page after the last row. */
  async more() {
    const cursor = this.nextCursor.value;
    if (cursor === null || this.loading.value) return;
    await this.#loading(async (isCurrent) => {
      const page = await get(this.#path(cursor, PAGE));
      if (!isCurrent()) return;
      const held = new Set(this.items.value.map(({ id }) => id));
      batch(() => {
        this.items.value = [...this.items.value, ...page.items.filter(({ id }) => !held.has(id))];
        this.nextCursor.value = page.next_cursor;
        this.problem.value = null;
      });
    });
  }

  /** Runs one load; its response is dropped if another load has started. */
  async #loading(load) {
    const number = ++this.#request;
    const isCurrent = () => number === this.#request;
    this.loading.value = true;
    try {
      await load(isCurrent);
    } catch (problem) {
      if (isCurrent()) this.problem.value = problem;
    } finally {
      if (isCurrent()) {
        this.loading.value = false;
        this.#missed = null;
      }
    }
  }

  #replace(items, cursor) {
    batch(() => {
      this.items.value = items;
      this.nextCursor.value = cursor;
      this.problem.value = null;
      this.loaded.value = true;
      for (const event of this.#missed ?? []) this.#apply(event);
    });
  }

  setFilter(changes) {
    this.filter.value = { ...this.filter.value, ...changes };
    this.loaded.value = false;
    return this.load();
  }

  #path(cursor, limit, status = this.filter.value.status) {
    const query = new URLSearchParams({ limit });
    const { q } = this.filter.value;
    if (status) query.set("status", status);
    if (q) query.set("q", q);
    if (cursor) query.set("cursor", cursor);
    return `/v1/sessions?${query}`;
  }

  #take(events) {
    this.#missed?.push(...events);
    batch(() => {
      for (const event of events) this.#apply(event);
    });
  }

  #apply({ type, data }) {
    const id = data.session_id;
    if (type === "session.deleted") return this.removed(id);
    if (data.session) this.put(data.session);
    else if (type === "session.running") this.#change(id, { status: "running", outcome: null, error: null });
    else if (type === "session.idle") {
      this.#change(id, { status: "idle", outcome: data.outcome, error: data.error ?? null });
    }
    this.#refresh(id);
  }

  /** Adds, updates or filters out a session that the API has just returned. */
  put(session) {
    // Sub-agents are not in the list.
    if (session.kind === "subagent") return;
    const held = this.#held(session.id);
    if (held && held.last_seq > session.last_seq) return;
    this.#set(session, held);
  }

  /** Removes a deleted session. */
  removed(id) {
    this.#stale.delete(id);
    this.items.value = this.items.value.filter((item) => item.id !== id);
  }

  #held(id) {
    return this.items.value.find((item) => item.id === id);
  }

  #change(id, changes) {
    const held = this.#held(id);
    if (held) this.#set({ ...held, ...changes }, held);
  }

  #set(session, held) {
    const wanted = matches(session, this.filter.value);
    this.items.value = wanted
      ? place(this.items.value, session, this.nextCursor.value !== null)
      : this.items.value.filter(({ id }) => id !== session.id);
    if (held && held.status !== session.status) this.onStatus(session, held);
  }

  /** Reloads a row soon, if it is in the list or may now match the status filter. */
  #refresh(id) {
    if (!this.#held(id) && !this.filter.value.status) return;
    this.#stale.add(id);
    if (this.#refreshing) return;
    this.#refreshing = true;
    setTimeout(() => this.#refreshAll(), GATHER_MS);
  }

  async #refreshAll() {
    for (const id of this.#stale) {
      this.#stale.delete(id);
      try {
        const session = await get(sessionPath(id));
        // Otherwise an event has arrived since.
        if (!this.#stale.has(id)) this.put(session);
      } catch (problem) {
        if (problem.status === 404) this.removed(id);
        // Other problems: the next connection reloads the list.
      }
    }
    this.#refreshing = false;
  }

  async #refreshRunning() {
    const running = this.items.value.filter(({ status }) => status === "running").length;
    if (running === 0 || document.visibilityState !== "visible" || this.loading.value) return;
    try {
      // The sessions in the list are the newest ones.
      const { items } = await get(this.#path(null, Math.min(LARGEST_PAGE, running), "running"));
      batch(() => {
        for (const session of items) if (this.#held(session.id) && !this.#stale.has(session.id)) this.put(session);
      });
    } catch {
      // The stream detects and shows a lost connection.
    }
  }
}
