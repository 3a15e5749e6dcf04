/** The ends of a session's runs and what became of its MCP servers, sub-agents and background commands, loaded for the
 * part of the transcript that is shown, and kept up to date by events.
 *
 * They come from the event log, newest first: one request for the runs of each page of messages.
 */

import { get, sessionPath } from "../core/http.js";
import { batch, effect, signal, untracked } from "../core/ui.js";

/** Milliseconds before a load that failed is repeated. */
const REPEAT_MS = 1000;
/** Events per request. */
const PAGE = 100;
const OF_SERVERS = ["mcp.ready", "mcp.failed"];
const OF_SUBAGENTS = ["subagent.started", "subagent.finished"];
const OF_COMMANDS = ["command.started", "command.ended"];
const TYPES = ["session.running", "session.idle", "checkpoint.failed", ...OF_SERVERS, ...OF_SUBAGENTS, ...OF_COMMANDS];

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
  /** What became of MCP servers, sub-agents and background commands: the data of their events with `seq` and `type`;
   * that of a start has its `end`, null while the sub-agent works or the command runs. */
  notes = signal([]);
  /** The newest run: `{startedAt, endedAt, steps}`, times in ms; the last two are null while it is active. Null if it is
   * unknown. */
  run = signal(null);
  #state;
  #events = new Map();
  /** The seqs between which all events are loaded. */
  #from = Infinity;
  #to = -Infinity;
  #loads = Promise.resolve();
  #wanted = null;
  #follower = null;
  #isWatched = false;

  constructor(state) {
    this.#state = state;
  }

  /** Follows the session's events while it is watched. Returns a function that stops it. */
  watch() {
    this.#isWatched = true;
    const stop = effect(() => {
      const follower = this.#state.follower.value;
      const events = this.#state.log.value.filter(({ type }) => TYPES.includes(type));
      untracked(() => {
        this.#followed(follower);
        this.#add(events);
      });
    });
    return () => {
      this.#isWatched = false;
      stop();
    };
  }

  /** A new follower means that the session was reloaded, possibly from an earlier state of the database. */
  #followed(follower) {
    if (this.#follower !== null && follower !== this.#follower) {
      this.#events = new Map();
      this.items.value = [];
      this.notes.value = [];
      this.run.value = null;
      [this.#from, this.#to] = [Infinity, -Infinity];
      if (this.#wanted) this.cover(...this.#wanted);
    }
    this.#follower = follower;
  }

  /** Loads the ends between two seqs; Infinity is the end of the log. One load follows the other. While the session is
   * watched, one that fails for now is repeated. */
  cover(first, last) {
    this.#wanted = [first, last];
    return this.#queue(first, last);
  }

  #queue(first, last) {
    const repeat = () => this.#isWatched && this.#queue(first, last);
    const failed = (problem) => void (problem.mayPass && setTimeout(repeat, REPEAT_MS));
    this.#loads = this.#loads.then(() => this.#cover(first, last)).catch(failed);
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
    const known = [...this.#events.values()].sort((one, other) => one.seq - other.seq);
    batch(() => {
      this.items.value = endsOf(known);
      this.notes.value = [
        ...notesOf(known),
        ...startsOf(known, OF_SUBAGENTS, "subagent_id"),
        ...startsOf(known, OF_COMMANDS, "command_id"),
      ];
      this.run.value = newestRun(known);
    });
  }
}

/** Those of MCP servers. One that is ready again with as many tools as before is no news. */
function notesOf(events) {
  const last = new Map();
  const notes = [];
  for (const { seq, type, data } of events) {
    if (!OF_SERVERS.includes(type)) continue;
    const told = JSON.stringify([type, data.tools, data.left_out, data.code, data.detail]);
    if (last.get(data.server) !== told) notes.push({ ...data, seq, type });
    last.set(data.server, told);
  }
  return notes;
}

/** What has started, each with its end. */
function startsOf(events, [started, ended], id) {
  const ends = new Map(events.filter(({ type }) => type === ended).map(({ data }) => [data[id], data]));
  const starts = events.filter(({ type }) => type === started);
  return starts.map(({ seq, type, data }) => ({ ...data, seq, type, end: ends.get(data[id]) ?? null }));
}

/** Whether a run starts with this event; a recovery continues an interrupted one. */
const isStart = ({ type, data }) => type === "session.running" && data.trigger !== "recovery";

function newestRun(events) {
  const start = events.findLast(isStart);
  if (!start) return null;
  const end = events.findLast(({ type, seq }) => type === "session.idle" && seq > start.seq);
  const times = { startedAt: Date.parse(start.data.at), endedAt: end ? Date.parse(end.data.at) : null };
  return { ...times, steps: end?.data.steps ?? null };
}

/** How many steps of the attempts belong to a run. */
export function stepsOf(run, attempts) {
  if (run.steps !== null) return run.steps;
  const own = attempts.filter(({ started_at }) => Date.parse(started_at) >= run.startedAt);
  return new Set(own.map(({ step }) => step)).size;
}

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
