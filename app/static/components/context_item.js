/** One item of a context: the message as sent next to the stored one. */

import { clock, count } from "../core/format.js";
import { html, useComputed, useEffect, useSignal } from "../core/ui.js";
import { storedMessage } from "../state/seen.js";
import { Badge, Failure } from "./basic.js";
import { CoveredMessages, Originals } from "./message_list.js";
import { MessageParts, preview } from "./message_parts.js";
import { ITEM_REASONS } from "./round_labels.js";

const KINDS = { placeholder: "running", clip: "warn", summary: "good", repair: "bad", control: "" };

export function ContextItem({ item, state, history }) {
  const { message, tokens, reason } = item;
  const key = `item-${message.id}`;
  const isOpen = useComputed(() => history.isOpen(key)).value;
  return html`<div class="cx-item ${reason ?? ""}" role="listitem">
    <button class="plain cx-item-head" aria-expanded=${isOpen} onClick=${() => history.toggle(key)}>
      <span class="cx-row-role">${message.role}</span>
      <span class="cx-row-text">
        ${reason && html`<${Badge} kind=${KINDS[reason] ?? ""}>${reason}<//> `}${preview(message)}
      </span>
      <span class="cx-row-tokens numbers">${count(tokens)}</span>
      <span class="cx-item-was dim">${changeOf(item)}</span>
    </button>
    ${isOpen && html`<${Comparison} item=${item} state=${state} history=${history} />`}
  </div>`;
}

/** How the item differs from the history, in a few words. */
function changeOf({ message, reason }) {
  const tokens = message.parts.reduce((total, part) => total + (part.original_tokens ?? 0), 0);
  if (reason === "placeholder") return tokens ? `${count(tokens)} tokens before` : "cleared";
  if (reason === "clip") return "longer than sent";
  if (reason === "summary") return "summarized messages";
  if (reason === "repair") return "repaired for the request";
  if (reason === "control") return "added by Palimpsest";
  return "unchanged";
}

function Comparison({ item, state, history }) {
  return html`<div class="cx-sides">
    <section aria-label="Model's view">
      ${item.reason && html`<p class="dim">${ITEM_REASONS[item.reason] ?? item.reason}</p>`}
      <${MessageParts} sessionId=${state.id} message=${item.message} />
    </section>
    <section aria-label="Full history">
      ${item.reason === "summary"
        ? html`<${Summarized} message=${item.message} state=${state} history=${history} />`
        : html`<${Stored} item=${item} state=${state} />`}
    </section>
  </div>`;
}

/** The stored message, loaded when the item is opened. */
function Stored({ item, state }) {
  const { message } = item;
  const stored = useSignal(undefined);
  const problem = useSignal(null);
  async function load() {
    try {
      stored.value = await storedMessage(state.id, message);
      problem.value = null;
    } catch (failure) {
      problem.value = failure;
    }
  }
  useEffect(() => {
    load();
  }, [message.id]);
  if (problem.value) return html`<${Failure} problem=${problem.value} onRetry=${load} />`;
  if (stored.value === undefined) return html`<p class="dim" aria-busy="true">Loading…</p>`;
  if (stored.value === null) return html`<p>This message is not stored: it was created for the request.</p>`;
  const { seq, created_at: time, tokens } = stored.value;
  return html`<p class="dim numbers">Stored at ${clock(time)} with seq ${count(seq)}, ${count(tokens)} tokens.</p>
    ${isSame(stored.value, message)
      ? html`<p>Unchanged.</p>`
      : html`<${MessageParts} sessionId=${state.id} message=${stored.value} />`}
    <${Originals} id=${state.id} message=${stored.value} />`;
}

function isSame(stored, sent) {
  const contentOf = ({ type, text, output, arguments: args, digest }) => [type, text, output, args, digest];
  return JSON.stringify(stored.parts.map(contentOf)) === JSON.stringify(sent.parts.map(contentOf));
}

/** The messages behind a summary, from the round that made it. */
function Summarized({ message, state, history }) {
  const round = history.rounds.value.findLast((made) => hasMade(made, message));
  if (!round) return html`<p>The compaction that made this summary is no longer known.</p>`;
  const show = () => history.select(`round-${round.round}`);
  return html`<p>
      Made by compaction ${round.round}, which merged earlier summaries and ${count(round.messages_compacted)} new
      messages.
      ${" "}<button class="plain link" onClick=${show}>Show compaction</button>
    </p>
    <${CoveredMessages} state=${state} history=${history} range=${round} total=${round.messages_compacted} />`;
}

/** Whether a round's summary is this message; summaries may be equal, so the last round before the message counts. */
function hasMade({ summary, created_at: time }, message) {
  if (!summary || Date.parse(time) > Date.parse(message.created_at)) return false;
  return message.parts.some(({ text }) => text?.includes(summary));
}
