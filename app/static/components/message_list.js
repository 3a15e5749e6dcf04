/** Messages of the history, such as those that a summary replaces, in short rows that expand to the parts. */

import { count } from "../core/format.js";
import { html, useEffect, useMemo, useSignal } from "../core/ui.js";
import { Covered } from "../state/seen.js";
import { Button, Failure } from "./basic.js";
import { MessageParts, preview } from "./message_parts.js";
import { OriginalOutput } from "./original_output.js";

/** The messages from `range.first_message_id` to `range.last_message_id`, loaded by page. `isKept(message)` tells which
 * of them the model still sees. */
export function CoveredMessages({ state, history, range, total, isKept = () => false }) {
  const { first_message_id: first, last_message_id: last } = range;
  const covered = useMemo(() => new Covered(state, range, history.steps.peek()), [first, last]);
  const problem = useSignal(null);
  async function more() {
    try {
      await covered.more();
      problem.value = null;
    } catch (failure) {
      problem.value = failure;
    }
  }
  useEffect(() => {
    more();
  }, [covered]);
  const messages = covered.messages.value;
  if (problem.value && messages.length === 0) return html`<${Failure} problem=${problem.value} onRetry=${more} />`;
  if (messages.length === 0) {
    const isWhole = covered.isWhole.value;
    return html`<p class="dim" aria-busy=${!isWhole}>${isWhole ? "These messages were not found." : "Loading…"}</p>`;
  }
  return html`<ol class="cx-rows">
      ${messages.map(
        (message) => html`<${Row} key=${message.id} id=${state.id} message=${message} kept=${isKept(message)} />`,
      )}
    </ol>
    ${!covered.isWhole.value &&
    html`<${Button} onClick=${more}>Show more (${count(messages.length)} of about ${count(total)} loaded)<//>`}`;
}

function Row({ id, message, kept }) {
  const isOpen = useSignal(false);
  const { voided_at: voidedAt, is_summary: isSummary } = message;
  const notes = [kept && "kept", voidedAt && "discarded", isSummary && "earlier summary"].filter(Boolean);
  return html`<li class="cx-row">
    <button class="plain cx-row-head" aria-expanded=${isOpen.value} onClick=${() => (isOpen.value = !isOpen.value)}>
      <span class="cx-row-role">${message.role}</span>
      <span class="cx-row-text">${notes.length > 0 && html`<em>${notes.join(", ")} </em>`}${preview(message)}</span>
      <span class="cx-row-tokens numbers">${count(message.tokens)}</span>
    </button>
    ${isOpen.value &&
    html`<div class="cx-row-body">
      <${MessageParts} sessionId=${id} message=${message} />
      <${Originals} id=${id} message=${message} />
    </div>`}
  </li>`;
}

/** Buttons that load the full outputs of truncated results. */
export function Originals({ id, message }) {
  const results = message.parts.filter(({ type, truncated }) => type === "tool_result" && truncated);
  return results.map(
    ({ call_id: callId }) => html`<${OriginalOutput} key=${callId} sessionId=${id} callId=${callId}
      verb="Show full output" />`,
  );
}
