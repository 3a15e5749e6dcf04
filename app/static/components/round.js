/** The details of a compaction round: its numbers, its summary next to the messages it replaced, and its actions. */

import { count, day, duration, percent, plain, plainLine } from "../core/format.js";
import { post, remove, sessionPath } from "../core/http.js";
import { html, useSignal } from "../core/ui.js";
import { cacheReuse, promptTokens } from "../core/usage.js";
import { savedShare } from "../state/context_marks.js";
import { Button, Confirm, say } from "./basic.js";
import { CoveredMessages } from "./message_list.js";
import { Markdown } from "./markdown.js";
import { CompactionRetrying } from "./retrying.js";
import { isWithoutModel, price, REASONS, RUNGS } from "./round_labels.js";

export function RoundDetails({ round, state, history }) {
  if (round.status === "running") return html`<${Running} round=${round} state=${state} />`;
  const failures = history.failures.value.get(round.round) ?? [];
  return html`<div class="cx-round-body">
    <${Facts} round=${round} history=${history} />
    ${isWithoutModel(round) && html`<${WithoutModel} round=${round} state=${state} history=${history} />`}
    ${history.unmade.value?.round === round.round && html`<${Unmade} state=${state} history=${history} />`}
    <${Failures} failures=${failures} />
    ${round.error &&
    failures.length === 0 &&
    html`<p class="cx-bad-text">${plainLine(round.error.code)}: ${plain(round.error.detail)}</p>`}
    ${round.summary && html`<${BothSides} round=${round} state=${state} history=${history} />`}
    ${history.latest.value === round.round && html`<${Revert} round=${round} state=${state} />`}
  </div>`;
}

/** A running round, with a button to cancel it. */
function Running({ round, state }) {
  const isConfirming = useSignal(false);
  const isRunActive = state.session.value?.status !== "idle";
  const cancel = async () => {
    await post(sessionPath(state.id, "cancel"));
    say("Cancelled.");
  };
  return html`<div class="cx-round-body cx-at-work">
    <progress aria-label="Compaction ${round.round} is running"></progress>
    <p>
      Compacting ${count(round.tokens_before)} tokens… (${REASONS[round.reason] ?? round.reason}; policy
      ${" "}${round.policy}). You can still send messages.
    </p>
    <${CompactionRetrying} retrying=${state.working.value.get(round.round)?.retrying} />
    ${isRunActive
      ? html`<button onClick=${() => (isConfirming.value = true)}>Cancel</button>`
      : html`<${Button} onClick=${cancel}>Cancel<//>`}
    ${isConfirming.value &&
    html`<${Confirm}
      title="Cancel run?"
      text="The compaction is cancelled together with the current run. You can resume the run later."
      verb="Cancel run"
      dismiss="Keep running"
      onConfirm=${cancel}
      onClose=${() => (isConfirming.value = false)}
    />`}
  </div>`;
}

function Facts({ round, history }) {
  const { usage } = round;
  const reverted = history.reverts.value.get(round.round);
  const paid = promptTokens(usage) + usage.output_tokens > 0;
  const facts = [
    ["When", day(round.created_at)],
    ["Why", REASONS[round.reason] ?? round.reason],
    ["Policy", round.policy],
    ["How", round.rung && (RUNGS[round.rung] ?? round.rung)],
    ["Tokens", round.tokens_after != null && sizes(round)],
    ["Messages compacted", round.status !== "discarded" && count(round.messages_compacted)],
    ["Outputs cleared", round.outputs_pruned > 0 && count(round.outputs_pruned)],
    ["Cost", paid ? price(usage) : "$0, no model call"],
    ["Tokens read", paid && read(usage)],
    ["Tokens written", paid && count(usage.output_tokens)],
    ["Took", round.duration_ms > 0 && duration(round.duration_ms)],
    ["Reverted", reverted && day(reverted.at)],
  ];
  return html`<dl class="cx-facts numbers">
    ${facts
      .filter(([, value]) => value)
      .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

function sizes(round) {
  return `${count(round.tokens_before)} → ${count(round.tokens_after)} (${percent(savedShare(round))} less)`;
}

function read(usage) {
  return `${count(promptTokens(usage))}, ${percent(cacheReuse(usage))} from the cache`;
}

/** The rungs that failed, in the order in which they were tried. */
function Failures({ failures }) {
  if (failures.length === 0) return null;
  return html`<ul class="cx-failures">
    ${failures.map(
      ({ seq, rung, code, detail, next }) => html`<li key=${seq}>
        <b>${RUNGS[rung] ?? rung}</b> failed (${plainLine(code)}: ${plainLine(detail)});
        ${" "}${next ? html`next: ${RUNGS[next] ?? next}.` : "nothing left to try."}
      </li>`,
    )}
  </ul>`;
}

/** Why no model wrote the summary, and a button to ask it again. */
function WithoutModel({ round, state, history }) {
  const failure = history.failures.value.get(round.round)?.findLast(({ rung }) => rung === "summary");
  const redo = async () => {
    await remove(sessionPath(state.id, "compactions", String(round.round)));
    say(`Compaction ${round.round} reverted.`);
    await requestAnew(state, history, round.round);
  };
  return html`<p>
    <b>Summarized without a model.</b>
    ${failure && ` ${plainLine(failure.detail)} (${plainLine(failure.code)})`}
    ${" "}${history.latest.value === round.round && html`<${Button} onClick=${redo}>Redo with the model<//>`}
  </p>`;
}

/** Requests the compaction that replaces a reverted round; a failure stays in `history.unmade`. */
async function requestAnew(state, history, round) {
  try {
    const { round: number } = await post(sessionPath(state.id, "compactions"), {});
    history.unmade.value = null;
    say(`Compaction ${number} requested.`);
  } catch (problem) {
    history.unmade.value = { round, problem };
  }
}

/** The round was reverted, but not replaced. */
function Unmade({ state, history }) {
  const { round, problem } = history.unmade.value;
  const retry = () => requestAnew(state, history, round);
  return html`<p role="alert">
    <span class="cx-bad-text">${plain(problem.message)}</span> The context is complete again and will be summarized when
    that is due. <${Button} onClick=${retry}>Compact now<//>
  </p>`;
}

function BothSides({ round, state, history }) {
  const inForce = round.status === "completed";
  return html`<div class="cx-sides">
    <section aria-label="Summary of compaction ${round.round}">
      <h4>Summary</h4>
      <div class="cx-summary" tabindex="0" role="region" aria-label="Summary">
        <${Markdown} id="round-${round.round}-${state.id}" text=${round.summary} isWhole=${true} />
      </div>
    </section>
    <section aria-label="Messages replaced by compaction ${round.round}">
      <h4>${inForce ? "Replaces" : "Replaced"} ${count(round.messages_compacted)} messages</h4>
      <${CoveredMessages} state=${state} history=${history} range=${round} total=${round.messages_compacted}
        isKept=${(message) => inForce && message.round === null && !message.voided_at && !message.is_summary} />
    </section>
  </div>`;
}

function Revert({ round, state }) {
  const isConfirming = useSignal(false);
  const freed = round.tokens_before - round.tokens_after;
  const revert = async () => {
    await remove(sessionPath(state.id, "compactions", String(round.round)));
    say(`Compaction ${round.round} reverted.`);
  };
  return html`<p>
      <button class="danger" onClick=${() => (isConfirming.value = true)}>Revert compaction ${round.round}</button>
    </p>
    ${isConfirming.value &&
    html`<${Confirm}
      title="Revert compaction ${round.round}?"
      text="The model will see the summarized messages again, about ${count(freed)} more tokens. If that is too much,
        the next step compacts again. Later messages stay."
      verb="Revert"
      onConfirm=${revert}
      onClose=${() => (isConfirming.value = false)}
    />`}`;
}
