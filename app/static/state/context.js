/** The data that the context view loads itself: all steps of the session, cleared outputs, and rounds with details.
 *
 * Events trigger a reload of these lists, so that the view looks the same as after a page reload. Until a list is
 * reloaded, the data from the events is shown.
 */

import { get, sessionPath } from "../core/http.js";
import { batch, computed, effect, signal, untracked } from "../core/ui.js";
import { lastAttempts, marksOf, mergedAttempts, mergedRounds, pointsOf } from "./context_marks.js";

const PAGE = 500;
/** Changes within this time are loaded together, in ms. */
const SETTLE_MS = 600;
const LOGGED = "prune.completed,compaction.failed,compaction.reverted";

const held = new WeakMap();

/** The session's context history; it outlives the view, so that a reopened tab has it at once. */
export function contextOf(state) {
  if (!held.has(state)) held.set(state, new ContextHistory(state));
  return held.get(state);
}

export class ContextHistory {
  /** How many attempts are loaded so far; null once all are. */
  progress = signal(0);
  problem = signal(null);
  /** Keys of open rounds, items and folds in the view. */
  open = signal(new Set());
  /** The entry that is shown next to the chart, `{key}`; a new object each time that one is selected. Null by default. */
  selected = signal(null);
  /** The round that was reverted for a new one whose request failed: `{round, problem}`, or null. */
  unmade = signal(null);
  #state;
  #stored = signal(new Map());
  #rounds = signal([]);
  #logged = signal([]);
  #stepCursor = null;
  #logCursor = 0;
  #timer = null;
  #loads = Promise.resolve();
  #follower = null;

  constructor(state) {
    this.#state = state;
    this.attempts = computed(() => mergedAttempts([...this.#stored.value.values()], state.steps.value));
    this.steps = computed(() => lastAttempts(this.attempts.value));
    this.rounds = computed(() => mergedRounds(this.#rounds.value, state.rounds.value, state.working.value));
    this.prunes = computed(() => mergedPrunes(this.#ofType("prune.completed"), state.prunes.value));
    this.failures = computed(() => Map.groupBy(this.#ofType("compaction.failed"), ({ round }) => round));
    this.reverts = computed(() => new Map(this.#ofType("compaction.reverted").map((event) => [event.round, event])));
    this.marks = computed(() => marksOf(this.steps.value, this.rounds.value, this.prunes.value));
    this.points = computed(() => pointsOf(this.steps.value, this.marks.value));
    /** The number of the round that can be reverted, which is the last completed one; or null. */
    this.latest = computed(() => this.rounds.value.findLast(({ status }) => status === "completed")?.round ?? null);
    /** Changes whenever the next step's context may have changed. */
    this.version = computed(() => this.#versionNow());
  }

  get id() {
    return this.#state.id;
  }

  /** Loads everything, and reloads changes while watched. Returns a function that stops it. */
  watch() {
    const stop = effect(() => {
      const follower = this.#state.follower.value;
      void this.version.value;
      untracked(() => this.#changed(follower));
    });
    return () => {
      stop();
      clearTimeout(this.#timer);
      this.#timer = null;
    };
  }

  /** Whether the element with this key is open; reading it subscribes. */
  isOpen(key) {
    return this.open.value.has(key);
  }

  toggle(key, open = !this.open.value.has(key)) {
    const keys = new Set(this.open.value);
    if (open) keys.add(key);
    else keys.delete(key);
    this.open.value = keys;
  }

  /** Shows the round or prune with this key (`round-N`, `prune-SEQ`) next to the chart. */
  select(key) {
    this.selected.value = { key };
  }

  /** Retries a failed load. */
  retry() {
    return this.#load();
  }

  #ofType(type) {
    return this.#logged.value.filter((event) => event.type === type).map(({ seq, data }) => ({ ...data, seq }));
  }

  #versionNow() {
    const { stepNews, rounds, working, failedRungs, prunes } = this.#state;
    const states = rounds.value.map(({ round, status }) => `${round}${status}`).join();
    const rounded = `${states} ${[...working.value.keys()].join()} ${failedRungs.value}`;
    return `${stepNews.value} ${rounded} ${prunes.value.at(-1)?.seq}`;
  }

  /** A new follower means that the session was reloaded, possibly from an earlier state of the database. */
  #changed(follower) {
    if (follower !== this.#follower) {
      const isFirst = this.#follower === null;
      this.#follower = follower;
      if (!isFirst) this.#forget();
    }
    const wait = this.progress.value === 0 ? 0 : SETTLE_MS;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#load();
    }, wait);
  }

  #forget() {
    batch(() => {
      this.#stored.value = new Map();
      this.#rounds.value = [];
      this.#logged.value = [];
      this.progress.value = 0;
    });
    this.#stepCursor = null;
    this.#logCursor = 0;
  }

  /** Loads run one after another: each continues where the previous one ended. */
  #load() {
    this.#loads = this.#loads.then(() => this.#loadNow());
    return this.#loads;
  }

  async #loadNow() {
    try {
      await Promise.all([this.#loadSteps(), this.#loadRounds(), this.#loadLog()]);
      this.problem.value = null;
    } catch (problem) {
      this.problem.value = problem;
    }
  }

  async #loadRounds() {
    this.#rounds.value = (await get(sessionPath(this.id, "compactions"))).items;
  }

  async #loadSteps() {
    for (;;) {
      const after = this.#stepCursor === null ? "" : `&after=${this.#stepCursor}`;
      const page = await get(`${sessionPath(this.id, "steps")}?limit=${PAGE}${after}`);
      const stored = new Map(this.#stored.value);
      for (const row of page.items) stored.set(row.message_id, row);
      batch(() => {
        this.#stored.value = stored;
        if (this.progress.value !== null) this.progress.value = page.next_cursor === null ? null : stored.size;
      });
      if (page.next_cursor === null) return this.#advance(page.items);
      this.#stepCursor = page.next_cursor;
    }
  }

  /** The next load starts after the last but one finished attempt if the transcript knows its seq, and otherwise with
   * the last page. */
  #advance(items) {
    const place = ({ message_id: id }) => this.#state.transcript.message(id)?.peek().seq;
    const open = items.findIndex(({ duration_ms: duration }, index) => duration === null && index >= items.length - 5);
    const done = items[(open < 0 ? items.length : open) - 2];
    const seq = done && place(done);
    if (seq !== undefined) this.#stepCursor = String(seq);
  }

  async #loadLog() {
    for (;;) {
      const query = `after=${this.#logCursor}&limit=${PAGE}&types=${LOGGED}`;
      const page = await get(`${sessionPath(this.id, "log")}?${query}`);
      if (page.items.length) this.#logged.value = [...this.#logged.value, ...page.items];
      this.#logCursor = page.next_cursor ?? Math.max(page.last_seq, this.#logCursor);
      if (page.next_cursor === null) return;
    }
  }
}

function mergedPrunes(stored, live) {
  const bySeq = new Map([...live, ...stored].map((prune) => [prune.seq, prune]));
  return [...bySeq.values()].sort((one, other) => one.seq - other.seq);
}
