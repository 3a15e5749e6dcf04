/** One item of a context: the message as it is sent beside the one that is stored. */

import { clock, count } from "../core/format.js";
import { html, useComputed, useEffect, useSignal } from "../core/ui.js";
import { storedMessage } from "../state/seen.js";
import { Badge, Failure } from "./basic.js";
import { CoveredMessages, Originals } from "./covered.js";
import { MessageParts, preview } from "./message_parts.js";
import { ITEM_REASONS } from "./round_words.js";
import { showEntry } from "./rounds.js";

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
      <span class="cx-item-was dim">${happened(item)}</span>
    </button>
    ${isOpen && html`<${Beside} item=${item} state=${state} history=${history} />`}
  </div>`;
}

/** What happened, in a few words. */
function happened({ message, reason }) {
  const tokens = message.parts.reduce((total, part) => total + (part.original_tokens ?? 0), 0);
  if (reason === "placeholder") return tokens ? `an output of ${count(tokens)} tokens` : "an output, cleared";
  if (reason === "clip") return "more than is sent";
  if (reason === "summary") return "messages that it stands for";
  if (reason === "repair") return "mended for the request";
  if (reason === "control") return "a line of ours";
  return "the same";
}

function Beside({ item, state, history }) {
  return html`<div class="cx-sides">
    <section aria-label="What the model sees">
      ${item.reason && html`<p class="dim">${ITEM_REASONS[item.reason] ?? item.reason}</p>`}
      <${MessageParts} message=${item.message} />
    </section>
    <section aria-label="What happened">
      ${item.reason === "summary"
        ? html`<${StandsFor} message=${item.message} state=${state} history=${history} />`
        : html`<${Stored} item=${item} state=${state} />`}
    </section>
  </div>`;
}

/** The message in the history, loaded when the item is opened. */
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
  if (stored.value === undefined) return html`<p class="dim" aria-busy="true">Loading …</p>`;
  if (stored.value === null) return html`<p>No such message is stored: it was made for the request.</p>`;
  const { seq, created_at: time, tokens } = stored.value;
  return html`<p class="dim numbers">Stored as number ${count(seq)} at ${clock(time)}, ${count(tokens)} tokens.</p>
    ${isSame(stored.value, message)
      ? html`<p>The same, word for word.</p>`
      : html`<${MessageParts} message=${stored.value} />`}
    <${Originals} id=${state.id} message=${stored.value} />`;
}

function isSame(stored, sent) {
  const said = ({ type, text, output, arguments: args, data }) => [type, text, output, args, data];
  return JSON.stringify(stored.parts.map(said)) === JSON.stringify(sent.parts.map(said));
}

/** The messages behind a summary, by the round that has made it. */
function StandsFor({ message, state, history }) {
  const round = history.rounds.value.findLast((made) => hasMade(made, message));
  if (!round) return html`<p>The round that has made it is not known any more.</p>`;
  const show = () => showEntry(history, `round-${round.round}`);
  return html`<p>
      Made by round ${round.round}, which merged what earlier ones had: ${count(round.messages_compacted)} messages
      were new to it.
      ${" "}<button class="plain link" onClick=${show}>Show the round</button>
    </p>
    <${CoveredMessages} state=${state} history=${history} range=${round} total=${round.messages_compacted} />`;
}

/** Whether a round's summary is this message; rounds may say the same, so the last one before it counts. */
function hasMade({ summary, created_at: time }, message) {
  if (!summary || Date.parse(time) > Date.parse(message.created_at)) return false;
  return message.parts.some(({ text }) => text?.includes(summary));
}
