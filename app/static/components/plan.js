/** The agent's plan: its progress, and its items when expanded. */

import { Fold, FoldsContext } from "./fold.js";
import { plainLine } from "../core/format.js";
import { html } from "../core/ui.js";

const MARKS = { pending: "○", in_progress: "◐", completed: "●" };
const WORDS = { pending: "to do", in_progress: "in progress", completed: "done" };

export function Plan({ state }) {
  const items = state.plan.value;
  if (!items?.length) return null;
  const done = items.filter(({ status }) => status === "completed").length;
  const current = items.find(({ status }) => status === "in_progress");
  const head = html`<span>Plan</span> <span class="dim numbers">${done} of ${items.length} done</span>
    ${current && html`<span class="plan-current">${plainLine(String(current.text))}</span>`}`;
  return html`<section class="plan" aria-label="Plan">
    <${FoldsContext.Provider} value=${state.transcript.reading.planFolds}>
      <${Fold} id="plan" head=${head}>
        ${() => html`<ol class="plan-items">
          ${items.map((item, place) => html`<${Item} key=${place} item=${item} />`)}
        </ol>`}
      <//>
    <//>
  </section>`;
}

function Item({ item: { text, status = "pending" } }) {
  return html`<li class=${status}>
    <span aria-hidden="true">${MARKS[status] ?? MARKS.pending}</span>
    <span>${plainLine(String(text))}<span class="hidden">, ${WORDS[status] ?? WORDS.pending}</span></span>
  </li>`;
}
