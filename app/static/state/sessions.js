/** The list of sessions: API pages, kept up to date by the event stream of all sessions.
 *
 * That stream reports starts, calls and ends, but not what a step has cost, and has no ids. So an event updates its row
 * and, unless it is only about a call, reloads it; rows of running sessions are reloaded every few seconds; and each
 * new connection reloads the list.
 */

import { Follower } from "../core/follow.js";
import { get, sessionPath } from "../core/http.js";
import { batch, effect, signal, untracked } from "../core/ui.js";
import { matches, needsYou, ordered, place } from "./session_order.js";

const PAGE = 50;
/** The API's maximum page size. */
const LARGEST_PAGE = 500;
/** How long events are collected before they are applied, in ms: many running sessions have dozens a second, and each
 * time the list is drawn again. */
const APPLY_MS = 80;
/** How long events are collected before their rows are reloaded, in ms: a starting or ending run has several. */
const GATHER_MS = 200;
/** How often the rows of running sessions are reloaded, in ms: about as often as they make a new step. */
const RUNNING_MS = 5_000;

class SessionList {
  /** Sessions, last changed first. */
  items = signal([]);
  nextCursor = signal(null);
  loading = signal(true);
  /** Whether a page has been loaded for the current filter. */
  loaded = signal(false);
  problem = signal(null);
  /** The filter: `status` ("" for all) and `q`, a text. */
  filter = signal({ status: "", q: "" });
  /** Whether the stream stays open while the page is hidden. */
  staysOpen = () => false;
  follower = signal(null);
  /** Ids of the sessions that wait for the user, whether they match the filter or not. */
  attention = signal(new Set());
  /** Called with a session when its status changes, whether it matches the filter or not. */
  watchers = new Set();
  /** The last known status of each session. */
  #statuses = new Map();
  #request = 0;
  /** Ids of rows to reload. */
  #stale = new Set();
  #refreshing = false;
  /** Events received while the list is loading, which it may not include; null when it is not loading. */
  #missed = null;
  /** Events that are not applied yet. */
  #arrived = [];
  #timer = null;
  #unwatch = () => {};

  open() {
    this.follower.value = new Follower("/v1/events?activity=true", {
      onEvents: (events) => this.#take(events),
      onConnected: () => this.load({ keep: true }),
      onLost: (problem) => (this.problem.value = problem),
      staysOpen: () => this.staysOpen(),
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
    this.attention.value = new Set();
    this.#request += 1;
  }

  /** Loads the list for the filter: its first page, or with `keep` about as many sessions as are loaded. Without a
   * filter by status, those that wait or run are loaded too, however long ago they have changed. */
  async load({ keep = false } = {}) {
    const wanted = keep ? Math.max(PAGE, this.items.value.length) : PAGE;
    this.#missed = [];
    await this.#loading(async (isCurrent) => {
      const waiting = get(`/v1/sessions?status=needs_attention&sort=activity&limit=${LARGEST_PAGE}`);
      const running = this.filter.value.status ? { items: [] } : get(this.#path(null, LARGEST_PAGE, "running"));
      const others = Promise.all([waiting, running]);
      // A problem of the page is the one that is reported.
      others.catch(() => {});
      const items = [];
      let cursor = null;
      do {
        const page = await get(this.#path(cursor, Math.min(LARGEST_PAGE, wanted - items.length)));
        if (!isCurrent()) return;
        items.push(...page.items);
        cursor = page.next_cursor;
      } while (cursor !== null && items.length < wanted);
      const [{ items: attention }, { items: active }] = await others;
      if (!isCurrent()) return;
      this.attention.value = new Set(attention.map(({ id }) => id));
      const found = attention.filter((session) => matches(session, this.filter.value));
      this.#replace(ordered([...found, ...active, ...items]), cursor);
    });
  }

  /** Loads the page after the last row. */
  async more() {
    const cursor = this.nextCursor.value;
    if (cursor === null || this.loading.value) return;
    await this.#loading(async (isCurrent) => {
      const page = await get(this.#path(cursor, PAGE));
      if (!isCurrent()) return;
      batch(() => {
        for (const session of page.items) if (!this.#held(session.id)) this.#set(session, null, false);
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
      for (const { id, status } of items) this.#statuses.set(id, status);
      this.nextCursor.value = cursor;
      this.problem.value = null;
      this.loaded.value = true;
      for (const event of this.#missed ?? []) this.#apply(event);
    });
  }

  setFilter({ status, q }) {
    const before = this.filter.value;
    if (status === before.status && q === before.q) return undefined;
    this.filter.value = { status, q };
    this.loaded.value = false;
    return this.load();
  }

  #path(cursor, limit, status = this.filter.value.status) {
    const query = new URLSearchParams({ limit, sort: "activity" });
    const { q } = this.filter.value;
    if (status) query.set("status", status);
    if (q) query.set("q", q);
    if (cursor) query.set("cursor", cursor);
    return `/v1/sessions?${query}`;
  }

  #take(events) {
    this.#missed?.push(...events);
    if (this.#arrived.push(...events) === events.length) setTimeout(() => this.#applyAll(), APPLY_MS);
  }

  #applyAll() {
    const events = this.#arrived;
    this.#arrived = [];
    batch(() => {
      for (const event of events) this.#apply(event);
    });
  }

  #apply({ type, data }) {
    const id = data.session_id;
    if (type === "session.deleted") return this.removed(id);
    if (type === "session.activity") {
      return this.#change(id, { activity: data.activity, ...(data.step === null ? {} : { steps: data.step }) });
    }
    if (data.session) this.put(data.session);
    else if (type === "session.running") {
      this.#statuses.set(id, "running");
      this.#change(id, { status: "running", outcome: null, error: null, activity: null, updated_at: data.at });
    } else if (type === "session.idle") {
      const { outcome, error = null } = data;
      this.#change(id, { status: "idle", outcome, error, activity: null, unseen: true, updated_at: data.at });
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

  /** Shows that the end of a session's last run was seen, for which there is no event. */
  seen(id) {
    this.#attends(id, false);
    this.#change(id, { unseen: false });
  }

  /** Removes a deleted session. */
  removed(id) {
    this.#stale.delete(id);
    this.#statuses.delete(id);
    this.#attends(id, false);
    this.items.value = this.items.value.filter((item) => item.id !== id);
  }

  #held(id) {
    return this.items.value.find((item) => item.id === id);
  }

  #change(id, changes) {
    const held = this.#held(id);
    if (held) this.#set({ ...held, ...changes }, held);
  }

  #set(session, held, hasMore = this.nextCursor.value !== null) {
    const wanted = matches(session, this.filter.value);
    this.items.value = wanted
      ? place(this.items.value, session, hasMore)
      : this.items.value.filter(({ id }) => id !== session.id);
    this.#attends(session.id, needsYou(session));
    const before = this.#statuses.get(session.id);
    this.#statuses.set(session.id, session.status);
    if (before !== undefined && before !== session.status) for (const watch of this.watchers) watch(session);
  }

  #attends(id, isNeeded) {
    if (this.attention.value.has(id) === isNeeded) return;
    const ids = new Set(this.attention.value);
    if (isNeeded) ids.add(id);
    else ids.delete(id);
    this.attention.value = ids;
  }

  /** Reloads a row soon, or adds it: a session with news belongs to the start of the list. */
  #refresh(id) {
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
      const { items } = await get(this.#path(null, Math.min(LARGEST_PAGE, running), "running"));
      batch(() => {
        for (const session of items) if (this.#held(session.id) && !this.#stale.has(session.id)) this.put(session);
      });
    } catch {
      // The stream detects and shows a lost connection.
    }
  }
}

/** Kept while the page is open, so that the list is unchanged when the user returns to it. */
export const list = new SessionList();
