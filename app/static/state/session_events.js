/** Applies a session's events to its SessionState. */

import { clientCallEnded, clientCallsFor, clientCallWaits } from "./client_calls.js";
import { sourceChanged } from "./source.js";

/** How many live steps and prunes are kept; older ones are in the API's lists. */
const LIVE_KEPT = 500;

/** Applies an event: `{seq, type, data}`. Unknown types are ignored. */
export function apply(state, { seq, type, data }) {
  CHANGES[type]?.(state, data, seq);
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

/** Records a started round. A background round does not count as in progress, since nothing waits for it. */
function startRound(state, round) {
  const working = new Map(state.working.value);
  working.set(round.round, { ...working.get(round.round), ...round });
  state.setWorking(working, isInProgress(state) || !round.background);
}

const isInProgress = (state) => state.session.value?.compaction.in_progress ?? false;

/** Records that a round waits to ask its model again. */
function delayRound(state, { round: number, ...failure }) {
  const round = state.working.value.get(number);
  if (!round) return;
  const working = new Map(state.working.value).set(number, { ...round, retrying: retryOf(failure) });
  state.setWorking(working, isInProgress(state));
}

/** A failed attempt that will be retried: `{attempt, until, code, detail}`. */
const retryOf = ({ attempt, at, delay_ms, code, detail }) => ({ attempt, until: Date.parse(at) + delay_ms, code, detail });

/** Removes a round that has ended in any way, and returns its data. */
function endRound(state, number) {
  const working = new Map(state.working.value);
  const round = working.get(number);
  working.delete(number);
  // Whether a round is in the background is unknown if it started before the page was opened.
  const mayBeLeft = [...working.values()].some(({ background }) => !background);
  state.setWorking(working, isInProgress(state) && mayBeLeft);
  return round;
}

function upsertRound(state, round) {
  const rounds = without(state.rounds.value, "round", round.round);
  state.rounds.value = [...rounds, round].sort((one, other) => one.round - other.round);
}

function roundEnded(status) {
  return (state, { session_id, at, ...data }) => {
    const before = endRound(state, data.round);
    const known = state.rounds.value.find(({ round }) => round === data.round);
    // A failure reports only the usage of its rung; the usage of the whole round is in the list of rounds.
    const reported = status === "failed" ? undefined : data.usage;
    const usage = reported ?? known?.usage ?? before?.usage;
    upsertRound(state, { created_at: at, ...before, ...known, ...data, usage, status });
  };
}

function changeStep(state, { step, attempt, message_id, context }, changes) {
  const steps = new Map(state.steps.value);
  steps.set(message_id, { ...steps.get(message_id), step, attempt, message_id, context, ...changes });
  if (steps.size > LIVE_KEPT) steps.delete(steps.keys().next().value);
  state.steps.value = steps;
  state.stepNews.value += 1;
}

const sourceEvent = (type) => (state, data, seq) => sourceChanged(state, { seq, type, data });

const CHANGES = {
  "session.created": (state, { session }) => state.update(session),
  "session.updated": (state, { session }) => {
    state.update(session);
    clientCallsFor(state, session);
  },
  "session.deleted": (state) => (state.deleted.value = true),
  "session.running": (state) => {
    state.runs.value += 1;
    state.update({ status: "running", outcome: null, error: null });
  },
  "session.idle": (state, { outcome, error, answer, output }) => {
    state.retrying.value = null;
    state.clientCalls.value = [];
    state.update({ status: "idle", outcome, error: error ?? null, answer: answer ?? null, output: output ?? null });
  },
  "source.started": sourceEvent("source.started"),
  "source.completed": sourceEvent("source.completed"),
  "source.failed": sourceEvent("source.failed"),
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
    changeStep(state, data, { started_at: data.at });
  },
  "step.retrying": (state, data) => {
    state.transcript.voided(data);
    state.retrying.value = retryOf(data);
  },
  "step.finished": (state, data) => {
    state.transcript.stepFinished(data);
    state.update({ context: data.context, steps: Math.max(state.session.value?.steps ?? 0, data.step) });
    const { finish_reason, usage, at: finished_at } = data;
    changeStep(state, data, { finish_reason, usage, finished_at });
  },
  "text.delta": delta("text"),
  "reasoning.delta": delta("reasoning"),
  "tool.arguments": delta("tool_call"),
  "text.completed": completed("text"),
  "reasoning.completed": completed("reasoning"),
  "tool.call": (state, data) => {
    const { message_id, part_id, index, call_id, name, arguments: args, waits_for_client: waits } = data;
    const part = { id: part_id, index, type: "tool_call", call_id, name, arguments: args };
    state.transcript.partCompleted(part, message_id);
    if (waits) clientCallWaits(state, data);
  },
  "tool.output": (state, data) => state.transcript.output(data),
  "tool.result": (state, { session_id, at, message_id, part_id, ...result }, seq) => {
    state.transcript.resulted({ ...result, id: part_id, type: "tool_result" }, message_id, seq, at);
    clientCallEnded(state, result.call_id);
  },
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
    if (state.prunes.value.some((prune) => prune.seq === seq)) return;
    state.prunes.value = [...state.prunes.value, { ...data, seq }].slice(-LIVE_KEPT);
  },
  "compaction.started": (state, { session_id, at, ...round }) => startRound(state, { ...round, created_at: at }),
  "compaction.completed": (state, { session_id, at, ...round }) => {
    endRound(state, round.round);
    upsertRound(state, round);
    state.transcript.loadMarks();
  },
  "compaction.failed": (state, data) => {
    state.failedRungs.value += 1;
    // The round has ended if there is no next rung.
    if (!data.next) roundEnded("failed")(state, data);
  },
  "compaction.retrying": delayRound,
  "compaction.cancelled": roundEnded("cancelled"),
  "compaction.discarded": roundEnded("discarded"),
  "compaction.reverted": (state, data) => {
    roundEnded("reverted")(state, data);
    state.transcript.loadMarks();
  },
};
