/** The data of the context chart, as pure functions of the API's steps, rounds and prunes. */

/** The share by which a context became smaller; null if unknown. */
export function savedShare({ tokens_before: before, tokens_after: after }) {
  return after == null || !before ? null : (before - after) / before;
}

/** Attempts in order, stored ones updated with live ones. A stored attempt that has finished is final. `live` is a map
 * by message id. */
export function mergedAttempts(stored, live) {
  const rows = new Map(stored.map((row) => [row.message_id, row]));
  for (const [id, seen] of live) {
    const row = rows.get(id);
    if (!row || row.finish_reason === null) rows.set(id, { ...NEW_ATTEMPT, ...row, ...measured(seen) });
  }
  return [...rows.values()].sort((one, other) => one.step - other.step || one.attempt - other.attempt);
}

const NO_USAGE = {
  input_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
  cost_usd: 0,
};

const NEW_ATTEMPT = { finish_reason: null, usage: NO_USAGE, compaction_round: null, duration_ms: null };

function measured({ finished_at: finished, ...seen }) {
  if (!finished || !seen.started_at) return seen;
  return { ...seen, duration_ms: Date.parse(finished) - Date.parse(seen.started_at) };
}

/** The last attempt of each step, which is the one that counts. */
export function lastAttempts(attempts) {
  return attempts.filter(({ step }, index) => attempts[index + 1]?.step !== step);
}

/** The current rounds: the stored list, with changes from live events. */
export function mergedRounds(stored, live, working) {
  const rounds = new Map(stored.map((round) => [round.round, round]));
  const put = (round) => rounds.set(round.round, { ...EMPTY_ROUND, ...rounds.get(round.round), ...known(round) });
  for (const round of live) {
    if (rounds.get(round.round)?.status !== round.status) put(round);
  }
  for (const round of working.values()) if (!rounds.has(round.round)) put({ ...round, status: "running" });
  return [...rounds.values()].sort((one, other) => one.round - other.round);
}

/** The fields that an event has set. */
function known(round) {
  return Object.fromEntries(Object.entries(round).filter(([, value]) => value != null));
}

const EMPTY_ROUND = {
  rung: null,
  first_message_id: null,
  last_message_id: null,
  messages_compacted: 0,
  outputs_pruned: 0,
  tokens_after: null,
  summary: null,
  error: null,
  usage: NO_USAGE,
  duration_ms: 0,
};

/** Where the context became smaller: `{kind: "round" | "prune", key, x, before, after, time, item}` in order, with `x`
 * between the numbers of the steps before and after it. */
export function marksOf(steps, rounds, prunes) {
  const made = rounds.filter(({ status }) => status === "completed" || status === "reverted");
  const marks = [
    ...made.map((round) => roundMark(steps, round)),
    ...prunes.map((prune) => pruneMark(steps, prune)),
  ];
  marks.sort((one, other) => one.place - other.place || one.time - other.time);
  const alike = Map.groupBy(marks, ({ place }) => place);
  for (const [place, group] of alike) {
    const before = place === 0 ? (steps[0]?.step ?? 1) - 1 : steps[place - 1].step;
    // Marks between the same two steps are spread evenly.
    group.forEach((mark, index) => (mark.x = before + (index + 1) / (group.length + 1)));
  }
  return marks;
}

function roundMark(steps, round) {
  const time = Date.parse(round.created_at) + round.duration_ms;
  return { ...mark("round", round), key: `round-${round.round}`, time, place: placeOfRound(steps, round, time) };
}

function pruneMark(steps, prune) {
  const time = Date.parse(prune.at);
  return { ...mark("prune", prune), key: `prune-${prune.seq}`, time, place: placeOfTime(steps, time) };
}

function mark(kind, item) {
  return { kind, item, before: item.tokens_before, after: item.tokens_after };
}

/** How many steps are before a round. A step names the last round before it; a round that no step names, because it was
 * reverted before one or none has followed yet, is placed by time. */
function placeOfRound(steps, { round, status }, time) {
  const isAfter = (step) => (status === "reverted" ? step.compaction_round === round : step.compaction_round >= round);
  const first = steps.findIndex((step) => step.compaction_round !== null && isAfter(step));
  return first >= 0 ? first : placeOfTime(steps, time);
}

function placeOfTime(steps, time) {
  let low = 0;
  let high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (Date.parse(steps[middle].started_at) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The chart's points, left to right: one per step, two per mark (before and after). */
export function pointsOf(steps, marks) {
  const points = steps.map((step) => ({ x: step.step, tokens: step.context.tokens, step }));
  for (const mark of marks) {
    points.push({ x: mark.x, tokens: mark.before, mark, edge: 0 }, { x: mark.x, tokens: mark.after, mark, edge: 1 });
  }
  points.sort((one, other) => one.x - other.x || (one.edge ?? 0) - (other.edge ?? 0));
  let budget = steps[0]?.context ?? { usable: null, limit: null };
  for (const point of points) {
    budget = point.step?.context ?? budget;
    point.usable = budget.usable || null;
    point.limit = budget.limit || null;
  }
  return points;
}
