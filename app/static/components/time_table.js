/** Where the time of a session went: in total, and by step. */

import { count, duration, percent } from "../core/format.js";
import { PARTS, sumTimes, timesOf } from "../core/step_times.js";
import { html } from "../core/ui.js";
import { Figure, TableBox, useNewest } from "./usage_table.js";

const NAMES = { model: "Model", tools: "Tools", waiting: "Waiting for you", compaction: "Compaction" };

export function Times({ attempts, rounds, isLoading }) {
  const times = timesOf(attempts, rounds);
  const [rows, more] = useNewest(times);
  if (times.length === 0) return html`<p class="dim">${isLoading ? "Loading…" : "No steps have ended yet."}</p>`;
  const sum = sumTimes(times);
  const most = Math.max(...times.map(({ total }) => total));
  return html`<dl class="figures">
      <${Figure} name="All steps" value=${duration(sum.total)} />
      ${PARTS.map(
        (part) => html`<${Figure} key=${part} value=${sum[part] ? duration(sum[part]) : "none"}
          name=${html`<span class="key ${part}" aria-hidden="true"></span> ${NAMES[part]}`}>
          ${sum[part] > 0 && percent(sum[part] / sum.total)}
        <//>`,
      )}
    </dl>
    <${TableBox} name="Time by step">
      <thead>
        <tr>
          <th scope="col">Step</th>
          <th scope="col" class="number">Total</th>
          ${PARTS.map((part) => html`<th key=${part} scope="col" class="number">${NAMES[part]}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map((time) => html`<${Row} key=${time.step} time=${time} most=${most} />`)}
      </tbody>
    <//>
    ${more}`;
}

function Row({ time, most }) {
  return html`<tr>
    <th scope="row">${count(time.step)}<${Bar} time=${time} most=${most} /></th>
    <td class="number">${duration(time.total)}</td>
    ${PARTS.map((part) => html`<td key=${part} class="number">${cell(time[part], part)}</td>`)}
  </tr>`;
}

/** What rarely takes time is left empty where it took none. */
function cell(ms, part) {
  if (ms === null) return "–";
  return ms === 0 && (part === "waiting" || part === "compaction") ? "" : duration(ms);
}

function Bar({ time, most }) {
  const order = ["compaction", "model", "tools", "waiting"];
  const width = (part) => `${most === 0 ? 0 : ((time[part] ?? 0) / most) * 100}%`;
  return html`<span class="usage-bar" aria-hidden="true">
    ${order.map((part) => html`<span key=${part} class=${part} style=${{ width: width(part) }}></span>`)}
  </span>`;
}
