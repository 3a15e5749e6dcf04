/** Shared parts of the usage views: figures and table cells. */

import { compact, count, dollars, percent } from "../core/format.js";
import { cacheReuse, promptTokens } from "../core/usage.js";
import { html, useState } from "../core/ui.js";

/** A key figure with its name and an explanation. */
export function Figure({ name, value, children }) {
  return html`<div class="figure">
    <dt>${name}</dt>
    <dd>
      <span class="figure-value numbers">${value}</span>
      ${children && html`<span class="dim">${children}</span>`}
    </dd>
  </div>`;
}

/** The figures of a usage. `atLeast` is the known part, in US dollars, of a partly unknown cost. */
export function Figures({ usage, atLeast, children }) {
  const read = promptTokens(usage);
  return html`<dl class="figures">
    <${Figure} name="Cost" value=${costOf(usage.cost_usd, atLeast)} />
    <${Figure} name="Input" value=${compact(read)}>
      tokens: ${count(usage.input_tokens)} new, ${count(usage.cache_read_tokens)} cached,
      ${" "}${count(usage.cache_write_tokens)} written to the cache
    <//>
    <${Figure} name="Output" value=${compact(usage.output_tokens)}>
      tokens, ${count(usage.reasoning_tokens)} of them reasoning
    <//>
    <${Figure} name="Cache reuse" value=${percent(cacheReuse(usage))}>of input tokens came from the cache<//>
    ${children}
  </dl>`;
}

function costOf(cost, atLeast) {
  if (cost !== null) return dollars(cost);
  return atLeast ? `at least ${dollars(atLeast)}` : "unknown";
}

const COLUMNS = ["New input", "Cache read", "Cache write", "Output", "Reuse", "Cost"];

/** The headers of the cells below. */
export function UsageHeads() {
  return COLUMNS.map((name) => html`<th key=${name} scope="col" class="number">${name}</th>`);
}

/** A usage as table cells; `atLeast` as above. */
export function UsageCells({ usage, atLeast }) {
  const numbers = [
    count(usage.input_tokens),
    count(usage.cache_read_tokens),
    count(usage.cache_write_tokens),
    count(usage.output_tokens),
    percent(cacheReuse(usage)),
    costOf(usage.cost_usd, atLeast),
  ];
  return numbers.map((number, index) => html`<td key=${COLUMNS[index]} class="number">${number}</td>`);
}

/** A wide table in a scrollable box, which also scrolls by keyboard. */
export function TableBox({ name, children }) {
  return html`<div class="table-box" role="region" aria-label=${name} tabindex="0">
    <table>
      ${children}
    </table>
  </div>`;
}

const ROWS = 100;

/** The newest rows, last first, and a button that adds earlier ones. */
export function useNewest(rows) {
  const [shown, setShown] = useState(ROWS);
  const left = rows.length - shown;
  const more =
    left > 0 &&
    html`<button type="button" onClick=${() => setShown(shown + 5 * ROWS)}>
      Show earlier steps (${count(left)})
    </button>`;
  return [rows.slice(-shown).reverse(), more];
}

const PARTS = [
  ["new", "input_tokens"],
  ["new", "cache_write_tokens"],
  ["cached", "cache_read_tokens"],
  ["out", "output_tokens"],
];

/** Tokens as a bar whose full width is `most`; the table has the numbers. */
export function UsageBar({ usage, most }) {
  const width = (name) => `${most === 0 ? 0 : (usage[name] / most) * 100}%`;
  return html`<span class="usage-bar" aria-hidden="true">
    ${PARTS.map(([kind, name]) => html`<span key=${name} class=${kind} style=${{ width: width(name) }}></span>`)}
  </span>`;
}

/** The legend of the bars. */
export function Legend() {
  return html`<span class="legend">
    <span><span class="key"></span> new input</span> <span><span class="key cached"></span> cached</span>${" "}
    <span><span class="key out"></span> output</span>
  </span>`;
}
