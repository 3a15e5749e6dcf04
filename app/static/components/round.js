/** One round of compaction in full: its numbers, its summary beside what it replaced, and what can be done about it. */

import { count, day, duration, percent, plain, plainLine } from "../core/format.js";
import { post, remove, sessionPath } from "../core/http.js";
import { html, useSignal } from "../core/ui.js";
import { cacheReuse, promptTokens } from "../core/usage.js";
import { savedShare } from "../state/context_marks.js";
import { Button, Confirm, say } from "./basic.js";
import { CoveredMessages } from "./covered.js";
import { Markdown } from "./markdown.js";
import { price, REASONS, RUNGS } from "./round_words.js";

export function RoundDetails({ round, state, history }) {
  if (round.status === "running") return html`<${AtWork} round=${round} state=${state} />`;
  const failures = history.failures.value.get(round.round) ?? [];
  return html`<div class="cx-round-body">
    <${Facts} round=${round} history=${history} />
    <${Failures} failures=${failures} />
    ${round.error &&
    failures.length === 0 &&
    html`<p class="cx-bad-text">${plainLine(round.error.code)}: ${plain(round.error.detail)}</p>`}
    ${round.summary && html`<${BothSides} round=${round} state=${state} history=${history} />`}
    ${history.latest.value === round.round && html`<${Revert} round=${round} state=${state} />`}
  </div>`;
}

/** A round that is being made: what is known of it, and a way to end it. */
function AtWork({ round, state }) {
  const asks = useSignal(false);
  const works = state.session.value?.status !== "idle";
  const cancel = async () => {
    await post(sessionPath(state.id, "cancel"));
    say("Cancelled.");
  };
  return html`<div class="cx-round-body cx-at-work">
    <progress aria-label="Round ${round.round} is being made"></progress>
    <p>
      ${count(round.tokens_before)} tokens are to become fewer (${REASONS[round.reason] ?? round.reason}, policy
      ${" "}${round.policy}). Messages are accepted meanwhile.
    </p>
    ${works
      ? html`<button onClick=${() => (asks.value = true)}>Cancel</button>`
      : html`<${Button} onClick=${cancel}>Cancel<//>`}
    ${asks.value &&
    html`<${Confirm}
      title="Cancel the run?"
      text="A round is cancelled together with the run that the agent is in. Resume goes on with it later."
      verb="Cancel the run"
      onConfirm=${cancel}
      onClose=${() => (asks.value = false)}
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
    ["Cost", paid ? price(usage) : "$0, no model was asked"],
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

/** Rungs of the ladder that did not do, in the order in which they were tried. */
function Failures({ failures }) {
  if (failures.length === 0) return null;
  return html`<ul class="cx-failures">
    ${failures.map(
      ({ seq, rung, code, detail, next }) => html`<li key=${seq}>
        <b>${RUNGS[rung] ?? rung}</b> did not do (${plainLine(code)}: ${plainLine(detail)});
        ${" "}${next ? html`then: ${RUNGS[next] ?? next}.` : "nothing else was left."}
      </li>`,
    )}
  </ul>`;
}

function BothSides({ round, state, history }) {
  const inForce = round.status === "completed";
  return html`<div class="cx-sides">
    <section aria-label="Summary of round ${round.round}">
      <h4>Its summary</h4>
      <div class="cx-summary" tabindex="0" role="region" aria-label="Summary">
        <${Markdown} id="round-${round.round}-${state.id}" text=${round.summary} isWhole=${true} />
      </div>
    </section>
    <section aria-label="What round ${round.round} replaced">
      <h4>What it ${inForce ? "stands" : "stood"} for: ${count(round.messages_compacted)} messages</h4>
      <${CoveredMessages} state=${state} history=${history} range=${round} total=${round.messages_compacted}
        isKept=${(message) => inForce && message.round === null && !message.voided_at && !message.is_summary} />
    </section>
  </div>`;
}

function Revert({ round, state }) {
  const asks = useSignal(false);
  const freed = round.tokens_before - round.tokens_after;
  const revert = async () => {
    await remove(sessionPath(state.id, "compactions", String(round.round)));
    say(`Round ${round.round} is taken back.`);
  };
  return html`<p>
      <button class="danger" onClick=${() => (asks.value = true)}>Revert round ${round.round}</button>
    </p>
    ${asks.value &&
    html`<${Confirm}
      title="Revert round ${round.round}?"
      text="The model sees again what the summary stands for, about ${count(freed)} tokens more. If that is too much,
        the next step makes a new round. What came later stays."
      verb="Revert"
      onConfirm=${revert}
      onClose=${() => (asks.value = false)}
    />`}`;
}
