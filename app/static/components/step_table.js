/** The chart's data as a table, newest step first, shown in slices. */

import { count, dollars, duration, percent } from "../core/format.js";
import { html, useSignal } from "../core/ui.js";
import { cacheReuse } from "../core/usage.js";
import { ContextFold } from "./context_fold.js";

const SLICE = 100;

const COLUMNS = [
  "Tokens",
  "Usable",
  "Limit",
  "New input",
  "Cache read",
  "Cache write",
  "Output",
  "Reuse",
  "Cost",
  "Time",
  "Compaction",
];

/** The table is rendered when it is expanded. */
export function StepTable({ history }) {
  return html`<${ContextFold} name="Show as table" foldKey="steps" history=${history}>
    <${Table} history=${history} />
  <//>`;
}

function Table({ history }) {
  const attempts = history.attempts.value;
  const shown = useSignal(SLICE);
  const rows = attempts.slice(-shown.value).reverse();
  const left = attempts.length - rows.length;
  return html`<div class="cx-scroll" tabindex="0" role="region" aria-label="Steps as a table">
      <table class="steps">
        <thead>
          <tr>
            <th scope="col">Step</th>
            ${COLUMNS.map((name) => html`<th key=${name} scope="col" class="number">${name}</th>`)}
            <th scope="col">Ended</th>
          </tr>
        </thead>
        <tbody>
          ${rows.map((row) => html`<${Row} key=${row.message_id} row=${row} />`)}
        </tbody>
      </table>
    </div>
    ${left > 0 &&
    html`<button onClick=${() => (shown.value += SLICE * 5)}>Show ${count(Math.min(left, SLICE * 5))} of
      ${" "}${count(left)} earlier</button>`}`;
}

function Row({ row }) {
  const { step, attempt, context, usage, finish_reason: reason, duration_ms: took, compaction_round: round } = row;
  const numbers = [
    count(context.tokens),
    count(context.usable),
    count(context.limit),
    count(usage.input_tokens),
    count(usage.cache_read_tokens),
    count(usage.cache_write_tokens),
    count(usage.output_tokens),
    percent(cacheReuse(usage)),
    dollars(usage.cost_usd),
    duration(took),
    round ? `after ${round}` : "–",
  ];
  return html`<tr>
    <th scope="row">${count(step)}${attempt > 1 && html`<span class="dim"> attempt ${attempt}</span>`}</th>
    ${numbers.map((number, index) => html`<td key=${index} class="number">${number}</td>`)}
    <td>${reason === null ? "running" : reason.replace("_", " ")}</td>
  </tr>`;
}
