/** What a session has used so far, in its header: steps, the time of its newest run, and the cost. */

import { count, dollars, duration } from "../core/format.js";
import { get, sessionPath } from "../core/http.js";
import { html, useEffect, useRef } from "../core/ui.js";
import { contextOf } from "../state/context.js";
import { runEndsOf } from "../state/run_ends.js";
import { now } from "./basic.js";
import { useThrottle } from "./throttle.js";

/** Changes within this time are loaded together, in ms. */
const SETTLE_MS = 400;

export function SessionFacts({ state, session }) {
  useFreshUsage(state, session);
  const ends = runEndsOf(state);
  useEffect(() => ends.watch(), [ends]);
  useEffect(() => void ends.cover(Infinity, Infinity), [ends]);
  const { steps, usage } = session;
  if (steps === 0 && session.status === "idle") return null;
  return html`<span class="facts dim numbers">
    <span title="Steps of all runs">${count(steps)} ${steps === 1 ? "step" : "steps"}</span>
    <${Elapsed} run=${ends.run.value} />
    ${usage.cost_usd > 0 && html`<span title="Cost of all runs">${dollars(usage.cost_usd)}</span>`}
  </span>`;
}

/** How long the newest run has taken. */
function Elapsed({ run }) {
  if (run === null) return null;
  const isActive = run.endedAt === null;
  const took = Math.max(0, (run.endedAt ?? now.value) - run.startedAt);
  const text = duration(isActive ? Math.floor(took / 1000) * 1000 : took);
  return html`<span title=${isActive ? "Time of this run" : "Time of the last run"}>${text}</span>`;
}

/** Reloads the session's usage, which is not in its events, whenever it may have changed. */
function useFreshUsage(state, { status }) {
  const { version } = contextOf(state);
  const isFirst = useRef(true);
  const load = async () => {
    // Only the usage: events may have changed other fields meanwhile.
    const { usage } = await get(sessionPath(state.id));
    state.update({ usage });
  };
  const loadSoon = useThrottle(() => load().catch(() => {}));
  useEffect(() => {
    // It is part of the session when that is loaded.
    if (!isFirst.current) loadSoon(SETTLE_MS);
    isFirst.current = false;
  }, [state, version.value, status]);
}
