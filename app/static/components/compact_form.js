/** Manual compaction: a preview and the compaction itself. */

import { count, percent, plainLine } from "../core/format.js";
import { post, sessionPath } from "../core/http.js";
import { html, useSignal } from "../core/ui.js";
import { savedShare } from "../state/context_marks.js";
import { Button, say } from "./basic.js";
import { CoveredMessages } from "./message_list.js";
import { ContextFold } from "./context_fold.js";
import { OriginalOutput } from "./original_output.js";

const POLICIES = ["reactive", "threshold", "handoff"];

/** The form keeps its content while it is closed. */
export function CompactForm({ state, history }) {
  const isOpen = history.isOpen("compact");
  return html`<div class="cx-fold">
    <button aria-expanded=${isOpen} onClick=${() => history.toggle("compact")}>Compact now…</button>
    <div hidden=${!isOpen}><${Form} state=${state} history=${history} /></div>
  </div>`;
}

function Form({ state, history }) {
  const policy = useSignal("");
  const instructions = useSignal("");
  const preview = useSignal(null);
  const own = state.session.value?.compaction.policy;
  const body = () => ({
    ...(policy.value && { policy: policy.value }),
    ...(instructions.value.trim() && { instructions: instructions.value }),
  });
  const path = sessionPath(state.id, "compactions");
  const look = async () => {
    const version = history.version.value;
    const chosen = body();
    const found = await post(path, { ...chosen, dry_run: true });
    if (JSON.stringify(body()) === JSON.stringify(chosen)) preview.value = { version, found };
  };
  // A preview is only valid for the options it was made with.
  const change = (field, value) => {
    field.value = value;
    preview.value = null;
  };
  const compact = async () => {
    const round = await post(path, body());
    preview.value = null;
    const when = state.session.value?.status === "idle" ? "" : "; it will run before the next step";
    say(`Compaction ${round.round} requested${when}.`);
  };
  return html`<form class="compact-form" onSubmit=${(event) => event.preventDefault()}>
    <div class="field">
      <label for="compact-policy">Policy</label>
      <select id="compact-policy" value=${policy.value} onChange=${(event) => change(policy, event.target.value)}>
        <option value="">session default (${own})</option>
        ${POLICIES.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
      </select>
    </div>
    <div class="field">
      <label for="compact-instructions">What the summary should keep (optional)</label>
      <textarea
        id="compact-instructions"
        rows="2"
        maxlength="10000"
        placeholder="Keep the decisions on the API"
        value=${instructions.value}
        onInput=${(event) => change(instructions, event.target.value)}
      ></textarea>
    </div>
    <div class="cx-buttons">
      <${Button} onClick=${look}>Preview<//>
      <${Button} kind="primary" onClick=${compact}>Compact<//>
    </div>
    ${preview.value && html`<${Preview} ...${preview.value} state=${state} history=${history} />`}
  </form>`;
}

function Preview({ found: preview, version, state, history }) {
  const { messages_compacted: messages, outputs_pruned: outputs, call_ids: callIds, kept_message_ids: kept } = preview;
  const fits = preview.tokens_after < preview.trigger;
  return html`<section class="cx-preview" aria-label="Compaction preview" aria-live="polite">
    <h3>Preview (${preview.policy})</h3>
    ${version !== history.version.value &&
    html`<p class="cx-bad-text">The context has changed since this preview.</p>`}
    <dl class="cx-facts numbers">
      <div><dt>Tokens</dt><dd>${count(preview.tokens_before)} → about ${count(preview.tokens_after)}
        ${" "}(${percent(savedShare(preview))} less)</dd></div>
      <div><dt>Trigger</dt><dd>${count(preview.trigger)}</dd></div>
      <div><dt>Usable</dt><dd>${count(preview.usable)}</dd></div>
      <div><dt>Limit</dt><dd>${count(preview.limit)}</dd></div>
      <div><dt>Messages compacted</dt><dd>${count(messages)}</dd></div>
      <div><dt>Kept verbatim</dt><dd>${count(kept.length)}</dd></div>
      <div><dt>Outputs cleared</dt><dd>${count(outputs)}</dd></div>
    </dl>
    ${messages === 0 &&
    html`<p>There is nothing to compact: no model would be called, and the context would stay as it is.</p>`}
    ${messages > 0 && !fits && html`<p>This is not below the trigger, so the compaction may escalate.</p>`}
    ${messages > 0 &&
    html`<${ContextFold} name="Messages that would be summarized" foldKey="preview-messages" history=${history}>
      <${CoveredMessages} state=${state} history=${history} range=${preview} total=${messages}
        isKept=${({ id }) => kept.includes(id)} />
    <//>`}
    ${outputs > 0 &&
    html`<${ContextFold} name="Outputs that would be cleared" foldKey="preview-outputs" history=${history}>
      <ul class="cx-cleared">
        ${callIds.map(
          (callId) => html`<li key=${callId}>
            <code class="dim">${plainLine(callId)}</code> <${OriginalOutput} sessionId=${state.id} callId=${callId} />
          </li>`,
        )}
      </ul>
    <//>`}
  </section>`;
}
