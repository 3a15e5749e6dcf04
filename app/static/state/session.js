/** One session as the page shows it: snapshots of the API, brought up to date by its event stream.
 *
 * Every event is an upsert by id, so one that a snapshot holds already does no harm; that is why the stream is followed
 * from the oldest `last_seq` among the snapshots. All changes go through `#apply`, which is the one place that knows
 * what an event means.
 */

import { Follower } from "../core/follow.js";
import { get, sessionPath } from "../core/http.js";
import { batch, signal } from "../core/ui.js";
import { latestPlan } from "./plan.js";
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
  /** Prunes that were seen live, oldest first. */
  prunes = signal([]);
  /** Attempts at steps that were seen live, as in the list of steps; by message id. */
  steps = signal(new Map());
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
  #closed = false;

  constructor(id) {
    this.#id = id;
    this.transcript = new Transcript(id);
  }

  get id() {
    return this.#id;
  }

  /** Loads the snapshots and follows the session from there. Problems go to `problem`. */
  async open() {
    try {
      const after = await this.#load();
      if (this.#closed) return;
      this.follower.value = new Follower(sessionPath(this.#id, "events"), {
        after,
        onEvents: (events) => this.#take(events),
        onConnected: () => this.transcript.connected(),
        onLost: (problem) => this.#lost(problem),
      });
      this.#findPlan();
    } catch (problem) {
      this.problem.value = problem;
    }
  }

  close() {
    this.#closed = true;
    this.follower.value?.stop();
  }

  /** Loads everything anew, as after the server's database was put back to an earlier state. */
  async reload() {
    this.follower.value?.stop();
    this.problem.value = null;
    this.log.value = [];
    await this.open();
  }

  async #load() {
    const path = (name) => sessionPath(this.#id, name);
    const [newest, session, queue, approvals, rounds] = await Promise.all([
      this.transcript.loadNewest(),
      get(sessionPath(this.#id)),
      get(path("queue")),
      get(path("approvals")),
      get(path("compactions")),
    ]);
    batch(() => {
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

  #apply({ seq, type, data }) {
    const change = CHANGES[type];
    if (change) change(this, data, seq);
  }

  /** The stream has left a hole: it is read again from where the page stands. */
  again() {
    const { value: follower } = this.follower;
    follower?.reconnect();
  }

  update(changes) {
    if (this.session.value) this.session.value = { ...this.session.value, ...changes };
  }

  setQueue(items) {
    this.queue.value = items;
    this.update({ queue: { ...this.session.value?.queue, pending: items.length } });
  }
}

const without = (items, key, value) => items.filter((item) => item[key] !== value);

function delta(kind) {
  return (state, data) => {
    if (!state.transcript.delta(kind, data)) state.again();
  };
}

function completed(type) {
  return (state, { message_id, part_id, index, text, interrupted }) =>
    state.transcript.partCompleted({ id: part_id, index, type, text, interrupted }, message_id);
}

/** A round that has ended, however it did. */
function ended(state, round) {
  const working = new Map(state.working.value);
  const begun = working.get(round);
  working.delete(round);
  state.working.value = working;
  return begun;
}

function upsertRound(state, round) {
  const rounds = without(state.rounds.value, "round", round.round);
  state.rounds.value = [...rounds, round].sort((one, other) => one.round - other.round);
}

/** Of a round that ended before a model was asked; its event says nothing. */
const NOTHING_USED = Object.freeze({
  input_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
  cost_usd: 0,
});

function roundEnded(status) {
  return (state, { session_id, at, ...data }) => {
    const begun = ended(state, data.round);
    const known = state.rounds.value.find(({ round }) => round === data.round);
    const usage = data.usage ?? known?.usage ?? NOTHING_USED;
    upsertRound(state, { created_at: at, ...begun, ...known, ...data, usage, status });
  };
}

function changeStep(state, data, changes) {
  const steps = new Map(state.steps.value);
  steps.set(data.message_id, { ...steps.get(data.message_id), ...changes });
  state.steps.value = steps;
}

/** What each event changes. Those that are not here change nothing that the page shows. */
const CHANGES = {
  "session.created": (state, { session }) => state.update(session),
  "session.updated": (state, { session }) => state.update(session),
  "session.deleted": (state) => (state.deleted.value = true),
  "session.running": (state) => state.update({ status: "running", outcome: null, error: null }),
  "session.idle": (state, { outcome, error }) => {
    state.retrying.value = null;
    state.update({ status: "idle", outcome, error: error ?? null });
  },
  "message.queued": (state, { message_id: id, mode, content, position }, seq) => {
    const items = without(state.queue.value, "id", id);
    items.splice(position - 1, 0, { id, mode, content, position, status: "pending", seq });
    state.setQueue(items);
  },
  "message.edited": (state, { message_id: id, mode, content, position }) => {
    const old = state.queue.value.find((item) => item.id === id);
    if (!old) return;
    const items = without(state.queue.value, "id", id);
    const edited = { ...old, mode, content: content ?? old.content };
    items.splice((position ?? old.position) - 1, 0, edited);
    state.setQueue(items);
  },
  "message.withdrawn": (state, { message_id: id }) => state.setQueue(without(state.queue.value, "id", id)),
  "message.dequeued": (state, { message_id: id }) => state.setQueue(without(state.queue.value, "id", id)),
  "message.created": (state, { message }) => state.transcript.created(message),
  "step.started": (state, data, seq) => {
    state.retrying.value = null;
    state.transcript.stepStarted(seq, data);
    state.update({ context: data.context, status: "running" });
    changeStep(state, data, { step: data.step, attempt: data.attempt, message_id: data.message_id, context: data.context, started_at: data.at });
  },
  "step.retrying": (state, data) => {
    state.transcript.voided(data);
    const until = Date.parse(data.at) + data.delay_ms;
    state.retrying.value = { attempt: data.attempt, until, code: data.code, detail: data.detail };
  },
  "step.finished": (state, data) => {
    state.transcript.stepFinished(data);
    state.update({ context: data.context, steps: Math.max(state.session.value?.steps ?? 0, data.step) });
    const { finish_reason, usage, context } = data;
    changeStep(state, data, { step: data.step, attempt: data.attempt, message_id: data.message_id, finish_reason, usage, context, finished_at: data.at });
  },
  "text.delta": delta("text"),
  "reasoning.delta": delta("reasoning"),
  "tool.arguments": delta("tool_call"),
  "text.completed": completed("text"),
  "reasoning.completed": completed("reasoning"),
  "tool.call": (state, { message_id, part_id, index, call_id, name, arguments: args }) =>
    state.transcript.partCompleted({ id: part_id, index, type: "tool_call", call_id, name, arguments: args }, message_id),
  "tool.output": (state, data) => state.transcript.output(data),
  "tool.result": (state, { session_id, at, message_id, part_id, ...result }, seq) =>
    state.transcript.resulted({ ...result, id: part_id, type: "tool_result" }, message_id, seq, at),
  "approval.requested": (state, { session_id, at, ...approval }) => {
    const waiting = without(state.approvals.value, "call_id", approval.call_id);
    state.approvals.value = [...waiting, { ...approval, requested_at: at }];
    state.update({ status: "awaiting_approval" });
  },
  "approval.resolved": (state, { call_id }) => {
    state.approvals.value = without(state.approvals.value, "call_id", call_id);
    if (state.approvals.value.length === 0) state.update({ status: "running" });
  },
  "plan.updated": (state, { items }) => (state.plan.value = items),
  "prune.completed": (state, data, seq) => {
    state.transcript.pruned(data.call_ids, data.at);
    if (!state.prunes.value.some((prune) => prune.seq === seq)) state.prunes.value = [...state.prunes.value, { ...data, seq }];
  },
  "compaction.started": (state, { session_id, at, ...round }) => {
    state.working.value = new Map(state.working.value).set(round.round, { ...round, created_at: at });
  },
  "compaction.completed": (state, { session_id, at, ...round }) => {
    ended(state, round.round);
    upsertRound(state, round);
    if (round.outputs_pruned) state.transcript.loadMarks();
  },
  "compaction.failed": (state, data) => {
    // The ladder may have further rungs; the round has ended when there is no next.
    if (!data.next) roundEnded("failed")(state, data);
  },
  "compaction.cancelled": roundEnded("cancelled"),
  "compaction.discarded": roundEnded("discarded"),
  "compaction.reverted": (state, data) => {
    roundEnded("reverted")(state, data);
    state.transcript.loadMarks();
  },
};
