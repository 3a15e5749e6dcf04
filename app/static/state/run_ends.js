/** The ends of a session's runs, loaded for the part of the transcript that is shown, and kept up to date by events.
 *
 * They come from the event log, newest first: one request for the runs of each page of messages.
 */

import { get, sessionPath } from "../core/http.js";
import { effect, signal, untracked } from "../core/ui.js";

/** Events per request. */
const PAGE = 100;
const TYPES = ["session.running", "session.idle", "checkpoint.failed"];

const held = new WeakMap();

/** The ends of the session's runs; they outlive the views. */
export function runEndsOf(state) {
  if (!held.has(state)) held.set(state, new RunEnds(state));
  return held.get(state);
}

export class RunEnds {
  /** The ends in order: the data of `session.idle` with `seq`, `startedAt` (null if unknown) and `failure`, the last
   * checkpoint that failed in the run, or null. */
  items = signal([]);
  #state;
  #events = new Map();
  /** The seqs between which all events are loaded. */
  #from = Infinity;
  #to = -Infinity;
  #loads = Promise.resolve();
  #wanted = null;
  #follower = null;

  constructor(state) {
    this.#state = state;
  }

  /** Follows the session's events while it is watched. Returns a function that stops it. */
  watch() {
    return effect(() => {
      const follower = this.#state.follower.value;
      const events = this.#state.log.value.filter(({ type }) => TYPES.includes(type));
      untracked(() => {
        this.#followed(follower);
        this.#add(events);
      });
    });
  }

  /** A new follower means that the session was reloaded, possibly from an earlier state of the database. */
  #followed(follower) {
    if (this.#follower !== null && follower !== this.#follower) {
      this.#events = new Map();
      this.items.value = [];
      [this.#from, this.#to] = [Infinity, -Infinity];
      if (this.#wanted) this.cover(...this.#wanted);
    }
    this.#follower = follower;
  }

  /** Loads the ends between two seqs; Infinity is the end of the log. One load follows the other. A failure leaves
   * them out until the next load. */
  cover(first, last) {
    this.#wanted = [first, last];
    this.#loads = this.#loads.then(() => this.#cover(first, last)).catch(() => {});
    return this.#loads;
  }

  async #cover(first, last) {
    if (last < this.#from || first > this.#to) {
      this.#from = await this.#load(last, first);
      this.#to = last;
      return;
    }
    if (last > this.#to) {
      await this.#load(last, this.#to);
      this.#to = last;
    }
    if (first < this.#from) this.#from = await this.#load(this.#from, first);
  }

  /** Loads backwards from one seq to another, and further to the start of the run there. Returns the seq reached. */
  async #load(last, first) {
    let cursor = last === Infinity ? null : last + 1;
    for (;;) {
      const after = cursor === null ? "" : `&after=${cursor}`;
      const query = `types=${TYPES.join()}&order=desc&limit=${PAGE}${after}`;
      const page = await get(`${sessionPath(this.#state.id, "log")}?${query}`);
      this.#add(page.items);
      if (page.next_cursor === null) return 0;
      cursor = page.next_cursor;
      const reached = page.items.at(-1);
      if (reached?.seq <= first && isStart(reached)) return reached.seq;
    }
  }

  #add(events) {
    const fresh = events.filter(({ seq }) => !this.#events.has(seq));
    if (fresh.length === 0) return;
    for (const event of fresh) this.#events.set(event.seq, event);
    this.items.value = endsOf([...this.#events.values()].sort((one, other) => one.seq - other.seq));
  }
}

/** Whether a run starts with this event; a recovery continues an interrupted one. */
const isStart = ({ type, data }) => type === "session.running" && data.trigger !== "recovery";

/** The runs' ends among events in order. */
function endsOf(events) {
  const ends = [];
  let startedAt = null;
  let failure = null;
  for (const event of events) {
    const { type, seq, data } = event;
    if (isStart(event)) [startedAt, failure] = [data.at, null];
    else if (type === "checkpoint.failed") failure = data;
    else if (type === "session.idle") {
      ends.push({ ...data, seq, startedAt, failure });
      [startedAt, failure] = [null, null];
    }
  }
  return ends;
}

/** The checkpoints of a run's beginning and end, or null where there is none: the last ones taken between its start and
 * its end, which is stored just before the event. */
export function checkpointsOf({ startedAt, at }, checkpoints) {
  if (startedAt === null) return { begin: null, end: null };
  const [start, end] = [Date.parse(startedAt), Date.parse(at) + SAME_MOMENT_MS];
  const own = checkpoints.filter((checkpoint) => isWithin(Date.parse(checkpoint.at), start, end));
  const ended = own.findLast(({ reason }) => reason === "run_ended");
  const begun = own.findLast(({ reason, run }) => reason === "run_started" && (!ended || run === ended.run));
  return { begin: begun?.id ?? null, end: ended?.id ?? null };
}

const SAME_MOMENT_MS = 50;
const isWithin = (time, start, end) => time >= start && time <= end;
