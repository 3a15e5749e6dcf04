/** What usages have in common where they are shown: figures with their names, and rows of a table. */

import { compact, count, dollars, percent } from "../core/format.js";
import { cacheReuse, promptTokens } from "../core/usage.js";
import { html } from "../core/ui.js";

/** A number that matters, what it is, and a sentence on it. */
export function Figure({ name, value, children }) {
  return html`<div class="figure">
    <dt>${name}</dt>
    <dd>
      <span class="figure-value numbers">${value}</span>
      ${children && html`<span class="dim">${children}</span>`}
    </dd>
  </div>`;
}

/** The figures of a usage. `atLeast` is the known part, in US dollars, of a cost that is not known in full. */
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
    <${Figure} name="Cache reuse" value=${percent(cacheReuse(usage))}>of what was read came from the cache<//>
    ${children}
  </dl>`;
}

function costOf(cost, atLeast) {
  if (cost !== null) return dollars(cost);
  return atLeast ? `${dollars(atLeast)} and more` : "unknown";
}

const COLUMNS = ["New in", "Cached", "Cache written", "Out", "Reuse", "Cost"];

/** The heads of the cells below. */
export function UsageHeads() {
  return COLUMNS.map((name) => html`<th key=${name} scope="col" class="number">${name}</th>`);
}

/** A usage as cells of a row; `atLeast` as above. */
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

/** A wide table that scrolls in its own box, by keyboard too. */
export function TableBox({ name, children }) {
  return html`<div class="table-box" role="region" aria-label=${name} tabindex="0">
    <table>
      ${children}
    </table>
  </div>`;
}

const PARTS = [
  ["new", "input_tokens"],
  ["new", "cache_write_tokens"],
  ["cached", "cache_read_tokens"],
  ["out", "output_tokens"],
];

/** Tokens as a bar, `most` being the whole width; the table beside it has them in numbers. */
export function UsageBar({ usage, most }) {
  const width = (name) => `${most === 0 ? 0 : (usage[name] / most) * 100}%`;
  return html`<span class="usage-bar" aria-hidden="true">
    ${PARTS.map(([kind, name]) => html`<span key=${name} class=${kind} style=${{ width: width(name) }}></span>`)}
  </span>`;
}

/** What the colours of the bars are. */
export function Legend() {
  return html`<span class="legend">
    <span class="new"></span> new in <span class="cached"></span> cached <span class="out"></span> out
  </span>`;
}
