/** Where the time of a session's steps went, in ms. */

export const PARTS = ["model", "tools", "waiting", "compaction"];

/** For each step that has ended, `{step, total, model, tools, waiting, compaction}`. `total` includes the compaction that
 * held the step up; `model` includes attempts that were retried. `model` and `tools` are null for steps of versions that
 * did not tell them apart. */
export function timesOf(attempts, rounds) {
  const durations = new Map(rounds.map(({ round, duration_ms: ms }) => [round, ms]));
  const times = [];
  let previous = null;
  for (const group of Map.groupBy(attempts, ({ step }) => step).values()) {
    const last = group.at(-1);
    const started = Date.parse(group[0].started_at);
    if (last.duration_ms !== null && last.finish_reason !== null) {
      const took = last.compaction_round === previous?.round ? 0 : (durations.get(last.compaction_round) ?? 0);
      // A summary that was made while steps ran held nothing up.
      const compaction = previous ? Math.max(0, Math.min(took, started - previous.end)) : 0;
      times.push({ step: last.step, ...partsOf(last, started), compaction, total: last.duration_ms + compaction });
    }
    previous = { round: last.compaction_round, end: started + (last.duration_ms ?? 0) };
  }
  return times;
}

function partsOf({ started_at: answering, duration_ms: duration, model_ms: answer, waiting_ms: waiting = 0 }, started) {
  if (answer == null) return { model: null, tools: null, waiting };
  const model = Math.min(duration, Date.parse(answering) - started + answer);
  return { model, tools: Math.max(0, duration - model - waiting), waiting };
}

/** The sums of the parts of several steps, and of all. */
export function sumTimes(times) {
  const sum = (name) => times.reduce((total, time) => total + (time[name] ?? 0), 0);
  return Object.fromEntries([...PARTS, "total"].map((name) => [name, sum(name)]));
}
