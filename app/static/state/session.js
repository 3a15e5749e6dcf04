/** One session as the page shows it: snapshots of the API, brought up to date by its event stream.
 *
 * Every event is an upsert by id, so one that a snapshot holds already does no harm; that is why the stream is followed
 * from the oldest `last_seq` among the snapshots. All changes go through `apply`, which is the one place that knows
 * what an event means.
 */

import { Follower } from "../core/follow.js";
import { get, sessionPath } from "../core/http.js";
import { Patience } from "../core/patience.js";
import { batch, signal } from "../core/ui.js";
import { latestPlan } from "./plan.js";
import { apply } from "./session_events.js";
import { Transcript } from "./transcript.js";

/** Events that the raw view keeps, newest last. */
const LOG_KEPT = 2_000;

export class SessionState {
  /** The Session of the API; null until it is loaded. */
  session = signal(null);
  /** Pending messages, in delivery order. */
  queue = signal([]);
  /** Calls that wait for a person. */
  approvals = signal([]);
  /** Rounds of compaction, oldest first. */
  rounds = signal([]);
  /** Rounds at work now: `{round, reason, policy, tokens_before, limit, background}` by number. */
  working = signal(new Map());
  /** How many rungs of rounds were seen to fail. */
  failedRungs = signal(0);
  /** Newest prunes that were seen live, oldest first. */
  prunes = signal([]);
  /** Newest attempts at steps that were seen live, as in the list of steps; by message id. */
  steps = signal(new Map());
  /** How many events of steps have come. */
  stepNews = signal(0);
  /** How many runs were seen to begin. */
  runs = signal(0);
  /** The plan's items; null until the model has made one. */
  plan = signal(null);
  /** The attempt that waits before it is tried again: `{attempt, until, code, detail}`, or null. */
  retrying = signal(null);
  /** Newest events as they came, for the raw view. */
  log = signal([]);
  /** Why the session cannot be shown: a Problem, or null. */
  problem = signal(null);
  deleted = signal(false);
  transcript;
  follower = signal(null);
  #id;
  /** Counts the loads of everything; one that was overtaken, or whose session was closed, is dropped. */
  #load = 0;
  #patience = new Patience();

  constructor(id) {
    this.#id = id;
    this.transcript = new Transcript(id);
  }

  get id() {
    return this.#id;
  }

  /** Loads the snapshots and follows the session from there. Problems go to `problem`; after one that may pass it is
   * tried again for as long as the session is open. */
  async open() {
    const load = (this.#load += 1);
    const isCurrent = () => load === this.#load;
    this.#patience.reset();
    while (isCurrent()) {
      try {
        const after = await this.#snapshots(isCurrent);
        if (isCurrent()) this.#follow(after);
        return;
      } catch (problem) {
        if (!isCurrent()) return;
        this.problem.value = problem;
        if (!problem.mayPass) return;
        await this.#patience.wait(this.#patience.next(problem));
      }
    }
  }

  close() {
    this.#load += 1;
    this.#patience.end();
    this.follower.value?.stop();
  }

  /** Loads everything anew, as after the server's database was put back to an earlier state. */
  async reload() {
    this.close();
    batch(() => {
      this.problem.value = null;
      this.log.value = [];
      this.steps.value = new Map();
      this.prunes.value = [];
      this.plan.value = null;
      this.retrying.value = null;
    });
    await this.open();
  }

  async #snapshots(isCurrent) {
    const path = (name) => sessionPath(this.#id, name);
    const [newest, session, queue, approvals, rounds] = await Promise.all([
      this.transcript.loadNewest(),
      get(sessionPath(this.#id)),
      get(path("queue")),
      get(path("approvals")),
      get(path("compactions")),
    ]);
    if (!isCurrent()) return null;
    batch(() => {
      this.problem.value = null;
      this.session.value = session;
      this.queue.value = queue.items;
      this.approvals.value = approvals.items;
      this.rounds.value = rounds.items.filter(({ status }) => status !== "running");
      this.working.value = new Map(
        rounds.items.filter(({ status }) => status === "running").map((round) => [round.round, round]),
      );
    });
    return Math.min(newest, ...[session, queue, approvals, rounds].map(({ last_seq }) => last_seq));
  }

  #follow(after) {
    this.follower.value = new Follower(sessionPath(this.#id, "events"), {
      after,
      onEvents: (events) => this.#take(events),
      onConnected: () => this.transcript.connected(),
      onLost: (problem) => this.#lost(problem),
    });
    this.#findPlan();
  }

  /** Nothing waits for the plan. One that came with an event meanwhile is newer. */
  async #findPlan() {
    const before = this.plan.value;
    const found = await latestPlan(this.#id).catch(() => null);
    if (found && this.plan.value === before) this.plan.value = found;
  }

  #lost(problem) {
    if (problem.status === 404) this.deleted.value = true;
    else if (problem.status === 409) this.reload();
    else this.problem.value = problem;
  }

  #take(events) {
    batch(() => {
      for (const event of events) this.#apply(event);
      const newest = this.log.value.at(-1)?.seq ?? 0;
      const durable = events.filter(({ seq }) => seq !== null && seq > newest);
      if (durable.length) this.log.value = [...this.log.value, ...durable].slice(-LOG_KEPT);
    });
  }

  /** One event that the page cannot take does not keep the rest from it. */
  #apply(event) {
    try {
      apply(this, event);
    } catch (error) {
      console.error(error);
    }
  }

  /** The stream has left a hole: it is read again from where the page stands. */
  again() {
    const { value: follower } = this.follower;
    follower?.reconnect();
  }

  update(changes) {
    if (this.session.value) this.session.value = { ...this.session.value, ...changes };
  }

  /** Takes the rounds at work now, and whether the session waits for one of them. */
  setWorking(working, inProgress) {
    this.working.value = working;
    const { compaction } = this.session.value ?? {};
    if (compaction) this.update({ compaction: { ...compaction, in_progress: inProgress } });
  }

  setQueue(items) {
    this.queue.value = items;
    this.update({ queue: { ...this.session.value?.queue, pending: items.length } });
  }
}
