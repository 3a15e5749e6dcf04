/** A session's context: its size over the steps, the compactions, and the model's current view. */

import { count, day } from "../core/format.js";
import { html, useEffect } from "../core/ui.js";
import { contextOf } from "../state/context.js";
import { seenOf } from "../state/seen.js";
import { Failure } from "../components/basic.js";
import { Chart } from "../components/chart.js";
import { CompactForm } from "../components/compact_form.js";
import { ContextItems } from "../components/context_items.js";
import { Rounds, SelectedEntry } from "../components/rounds.js";

export function ContextView({ state }) {
  const history = contextOf(state);
  useEffect(() => history.watch(), [history]);
  const problem = history.problem.value;
  const progress = history.progress.value;
  return html`<div class="context-view">
    ${problem && html`<${Failure} problem=${problem} onRetry=${() => history.retry()} />`}
    <section aria-labelledby="context-steps">
      <h2 id="context-steps">Context over steps</h2>
      <p>
        Each step sends the conversation to the model; when it nears the usable limit, Palimpsest shortens what is sent,
        with a summary of older messages (◆) or without old outputs (○), and the line drops.
      </p>
      <${Summary} state=${state} history=${history} />
      ${progress !== null && !problem && html`<${Progress} loaded=${progress} state=${state} />`}
      ${(progress === null || progress > 0) &&
      html`<div class="cx-chart">
        <${Chart} history=${history} onPick=${(point) => open(point, state, history)} />
        <${SelectedEntry} state=${state} history=${history} />
      </div>`}
    </section>
    <section aria-labelledby="context-rounds">
      <h2 id="context-rounds">Compactions and cleared outputs</h2>
      <${CompactForm} state=${state} history=${history} />
      <${Rounds} state=${state} history=${history} />
    </section>
    <section aria-labelledby="context-seen">
      <h2 id="context-seen" tabindex="-1">Model's view vs. full history</h2>
      <${ContextItems} state=${state} history=${history} />
    </section>
  </div>`;
}

/** Opens what a point of the chart stands for: a compaction or cleared outputs next to the chart, a step below it. */
function open({ mark, step }, state, history) {
  if (mark) {
    history.select(mark.key);
    return;
  }
  seenOf(state).choose(step.step);
  const heading = document.getElementById("context-seen");
  heading.scrollIntoView({ block: "start" });
  heading.focus({ preventScroll: true });
}

function Progress({ loaded, state }) {
  const steps = Math.max(loaded, state.session.value?.steps ?? 0);
  return html`<p class="dim" role="status">
    <progress max=${steps || 1} value=${loaded} aria-label="Steps loaded"></progress>
    ${" "}${count(loaded)} of ${count(steps)} steps loaded
  </p>`;
}

/** The session's compaction in one line. */
function Summary({ state, history }) {
  const { compaction } = state.session.value;
  const rounds = history.rounds.value.filter(({ status }) => status === "completed");
  const prunes = history.prunes.value;
  const freed = [...rounds, ...prunes].reduce(
    (total, { tokens_before: before, tokens_after: after }) => total + before - after,
    0,
  );
  const last = rounds.at(-1)?.created_at;
  const isFresh = rounds.length + prunes.length === 0;
  return html`<p class="dim numbers">
    Policy ${compaction.policy}${isFresh ? ": no compactions yet." : ""}
    ${!isFresh &&
    html`: ${count(rounds.length)} ${rounds.length === 1 ? "compaction" : "compactions"}
      ${prunes.length > 0 && `, outputs cleared ${count(prunes.length)} ${prunes.length === 1 ? "time" : "times"}`};
      ${" "}${count(freed)} tokens freed in total. ${last ? `Last compaction: ${day(last)}.` : ""}`}
  </p>`;
}
