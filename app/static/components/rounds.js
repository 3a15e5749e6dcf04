/** Compaction rounds and cleared outputs, newest first; each expands to its details. */

import { count, dollars, duration, percent, plainLine } from "../core/format.js";
import { html, useEffect, useRef, useSignal } from "../core/ui.js";
import { savedShare } from "../state/context_marks.js";
import { Ago, Badge } from "./basic.js";
import { OriginalOutput } from "./original_output.js";
import { RoundDetails } from "./round.js";
import { clearedOf, isWithoutModel, PRUNE_REASONS, REASONS, RUNGS, STATUS_KINDS } from "./round_labels.js";

const SLICE = 12;

/** The compaction or the cleared outputs that were selected in the chart. */
export function SelectedEntry({ state, history }) {
  const heading = useRef(null);
  const { value: selected } = history.selected;
  const key = selected?.key;
  const round = history.rounds.value.find((each) => `round-${each.round}` === key);
  const prune = history.prunes.value.find((each) => `prune-${each.seq}` === key);
  useEffect(() => heading.current?.focus(), [selected]);
  const close = () => (history.selected.value = null);
  if (!round && !prune) return null;
  return html`<section class="cx-selected" aria-label="Selected in the chart">
    <header>
      <h3 ref=${heading} tabindex="-1">${round ? `Compaction ${round.round}` : `${clearedOf(prune)} cleared`}</h3>
      <button type="button" class="plain" aria-label="Close" onClick=${close}>×</button>
    </header>
    ${round
      ? html`<${RoundDetails} round=${round} state=${state} history=${history} />`
      : html`<${PruneDetails} prune=${prune} state=${state} />`}
  </section>`;
}

/** The list; `history` stores which entries are open. */
export function Rounds({ state, history }) {
  const shown = useSignal(SLICE);
  const entries = [
    ...history.rounds.value.map((round) => ({ key: `round-${round.round}`, time: round.created_at, round })),
    ...history.prunes.value.map((prune) => ({ key: `prune-${prune.seq}`, time: prune.at, prune })),
  ].sort((one, other) => Date.parse(other.time) - Date.parse(one.time));
  if (entries.length === 0) {
    return html`<p class="dim">None yet: the model sees the full history.</p>`;
  }
  const seen = entries.filter(({ key }, index) => index < shown.value || history.isOpen(key));
  const left = entries.length - seen.length;
  return html`<ol class="cx-rounds">
      ${seen.map(({ key, round, prune }) =>
        round
          ? html`<${Round} key=${key} id=${key} round=${round} state=${state} history=${history} />`
          : html`<${Prune} key=${key} id=${key} prune=${prune} state=${state} history=${history} />`,
      )}
    </ol>
    ${left > 0 &&
    html`<button onClick=${() => (shown.value += SLICE * 4)}>Show ${count(Math.min(left, SLICE * 4))} of ${count(left)}
      ${" "}earlier</button>`}`;
}

function Round({ id, round, state, history }) {
  const isOpen = history.isOpen(id);
  const why = REASONS[round.reason] ?? round.reason;
  return html`<li class="cx-round" id=${id}>
    <h3>
      <button class="plain cx-round-head" aria-expanded=${isOpen} onClick=${() => history.toggle(id)}>
        <span class="cx-round-name"><${Sign} text="◆" /> Compaction ${round.round}</span>
        <${Badge} kind=${STATUS_KINDS[round.status] ?? ""}>${round.status}<//>
        ${isWithoutModel(round) && html`<${Badge} kind="warn">Summarized without a model<//>`}
        <${Sizes} item=${round} />
        <span class="dim cx-round-why">${round.rung ? `${RUNGS[round.rung]}; ` : ""}${why}</span>
        <span class="dim numbers">${priceOf(round)}</span>
        <span class="dim"><${Ago} time=${round.created_at} /></span>
      </button>
    </h3>
    ${(isOpen || round.status === "running") &&
    html`<${RoundDetails} round=${round} state=${state} history=${history} />`}
  </li>`;
}

function Prune({ id, prune, state, history }) {
  const isOpen = history.isOpen(id);
  return html`<li class="cx-round" id=${id}>
    <h3>
      <button class="plain cx-round-head" aria-expanded=${isOpen} onClick=${() => history.toggle(id)}>
        <span class="cx-round-name"><${Sign} text="○" /> ${clearedOf(prune)} cleared</span>
        <${Sizes} item=${prune} />
        <span class="dim cx-round-why">${PRUNE_REASONS[prune.reason] ?? prune.reason}</span>
        <span class="dim"><${Ago} time=${prune.at} /></span>
      </button>
    </h3>
    ${isOpen && html`<${PruneDetails} prune=${prune} state=${state} />`}
  </li>`;
}

function priceOf({ status, usage, duration_ms: took }) {
  if (status === "running") return "";
  return [usage.cost_usd !== null && dollars(usage.cost_usd), took > 0 && duration(took)].filter(Boolean).join(", ");
}

/** The entry's symbol in the chart. */
function Sign({ text }) {
  return html`<span class="cx-sign" aria-hidden="true">${text}</span>`;
}

function Sizes({ item }) {
  const { tokens_before: before, tokens_after: after } = item;
  if (after == null) return html`<span class="numbers">${count(before)} tokens</span>`;
  return html`<span class="numbers">${count(before)} → ${count(after)} (${percent(savedShare(item))} less)</span>`;
}

/** Cleared outputs by call, each with a button to read the original. */
function PruneDetails({ prune, state }) {
  return html`<div class="cx-round-body">
    <p>
      ${count(prune.tokens_saved)} tokens freed without a model call. A placeholder tells the model how to see each of
      them again.
    </p>
    <ul class="cx-cleared">
      ${prune.call_ids.map(
        (callId, index) => html`<li key=${callId}>
          <code>${plainLine(prune.tools?.[index] ?? "")}</code> <code class="dim">${callId}</code>
          ${" "}<${OriginalOutput} sessionId=${state.id} callId=${callId} />
        </li>`,
      )}
    </ul>
  </div>`;
}
