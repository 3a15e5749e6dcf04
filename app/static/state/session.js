/** The state of one session: API snapshots, kept up to date by its event stream.
 *
 * Every event is an upsert by id, so events that a snapshot already includes are harmless; therefore the stream is
 * followed from the oldest `last_seq` of the snapshots. All changes go through `apply`, the only place that interprets
 * events.
 */

import { Follower } from "../core/follow.js";
import { get, sessionPath } from "../core/http.js";
import { Backoff } from "../core/backoff.js";
import { batch, signal } from "../core/ui.js";
import { pendingCalls } from "./client_calls.js";
import { latestPlan } from "./plan.js";
import { apply } from "./session_events.js";
import { Transcript } from "./transcript.js";

/** How many events are kept for the events view. */
const LOG_KEPT = 2_000;

export class SessionState {
  /** The Session of the API; null until it is loaded. */
  session = signal(null);
  /** Pending messages, in delivery order. */
  queue = signal([]);
  /** Calls awaiting approval. */
  approvals = signal([]);
  /** Calls that wait for their result from a client. */
  clientCalls = signal([]);
  /** Compaction rounds, oldest first. */
  rounds = signal([]);
  /** Running rounds: `{round, reason, policy, tokens_before, limit, background, retrying}` by number, where `retrying`
   * is as below. */
  working = signal(new Map());
  /** How many failed rungs were reported by events. */
  failedRungs = signal(0);
  /** The newest prunes reported by events, oldest first. */
  prunes = signal([]);
  /** The newest attempts reported by events, as in the API's list of steps; by message id. */
  steps = signal(new Map());
  /** How many step events have arrived. */
  stepNews = signal(0);
  /** How many run starts were reported by events. */
  runs = signal(0);
  /** The plan's items; null without a plan. */
  plan = signal(null);
  /** The failed attempt that will be retried: `{attempt, until, code, detail}`, or null. */
  retrying = signal(null);
  /** The newest events, for the events view. */
  log = signal([]);
  /** Why the session cannot be shown: a Problem, or null. */
  problem = signal(null);
  deleted = signal(false);
  transcript;
  follower = signal(null);
  #id;
  /** Counts full loads; a load is dropped if a newer one has started or the session was closed. */
  #load = 0;
  #backoff = new Backoff();

  constructor(id) {
    this.#id = id;
    this.transcript = new Transcript(id);
  }

  get id() {
    return this.#id;
  }

  /** Loads the snapshots and follows the session from there. Problems are stored in `problem`; temporary ones are
   * retried while the session is open. */
  async open() {
    const load = (this.#load += 1);
    const isCurrent = () => load === this.#load;
    this.#backoff.reset();
    while (isCurrent()) {
      try {
        const after = await this.#snapshots(isCurrent);
        if (isCurrent()) this.#follow(after);
        return;
      } catch (problem) {
        if (!isCurrent()) return;
        this.problem.value = problem;
        if (!problem.mayPass) return;
        await this.#backoff.wait(this.#backoff.next(problem));
      }
    }
  }

  close() {
    this.#load += 1;
    this.#backoff.end();
    this.follower.value?.stop();
  }

  /** Reloads everything, for example after the server's database was restored to an earlier state. */
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
    const loaded = get(sessionPath(this.#id));
    const [newest, session, queue, approvals, clientCalls, rounds] = await Promise.all([
      loaded.then(({ last_seq: lastSeq }) => this.transcript.loadNewest(lastSeq)),
      loaded,
      get(path("queue")),
      get(path("approvals")),
      get(pendingCalls(this.#id)),
      get(path("compactions")),
    ]);
    if (!isCurrent()) return null;
    batch(() => {
      this.problem.value = null;
      this.session.value = session;
      this.queue.value = queue.items;
      this.approvals.value = approvals.items;
      this.clientCalls.value = clientCalls.items;
      this.rounds.value = rounds.items.filter(({ status }) => status !== "running");
      this.working.value = new Map(
        rounds.items.filter(({ status }) => status === "running").map((round) => [round.round, round]),
      );
    });
    return Math.min(newest, ...[session, queue, approvals, clientCalls, rounds].map(({ last_seq }) => last_seq));
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

  /** Loads the plan without blocking anything. A plan that arrived with an event meanwhile is newer. */
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

  /** An event that cannot be applied does not block the others. */
  #apply(event) {
    try {
      apply(this, event);
    } catch (error) {
      console.error(error);
    }
  }

  /** Reopens the stream after a gap, from the last durable event. */
  again() {
    const { value: follower } = this.follower;
    follower?.reconnect();
  }

  update(changes) {
    if (this.session.value) this.session.value = { ...this.session.value, ...changes };
  }

  /** Sets the running rounds, and whether the session waits for one of them. */
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
