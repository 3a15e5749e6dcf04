/** A round of compaction by hand: first what it would do, then the round. */

import { count, percent, plainLine } from "../core/format.js";
import { post, sessionPath } from "../core/http.js";
import { html, useSignal } from "../core/ui.js";
import { savedShare } from "../state/context_marks.js";
import { Button, say } from "./basic.js";
import { CoveredMessages } from "./covered.js";
import { ContextFold } from "./context_fold.js";
import { OriginalOutput } from "./original_output.js";

const POLICIES = ["reactive", "threshold", "handoff"];

/** What has been written stays while the form is closed. */
export function CompactForm({ state, history }) {
  const isOpen = history.isOpen("compact");
  return html`<div class="cx-fold">
    <button aria-expanded=${isOpen} onClick=${() => history.toggle("compact")}>Compact now …</button>
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
  // What is seen is of what was chosen.
  const change = (field, value) => {
    field.value = value;
    preview.value = null;
  };
  const compact = async () => {
    const round = await post(path, body());
    preview.value = null;
    const when = state.session.value?.status === "idle" ? "" : "; it comes before the next step";
    say(`Round ${round.round} is asked for${when}.`);
  };
  return html`<form class="compact-form" onSubmit=${(event) => event.preventDefault()}>
    <div class="field">
      <label for="compact-policy">Policy of this round</label>
      <select id="compact-policy" value=${policy.value} onChange=${(event) => change(policy, event.target.value)}>
        <option value="">the session's own (${own})</option>
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
  return html`<section class="cx-preview" aria-label="What a round would do" aria-live="polite">
    <h3>What a round would do now (${preview.policy})</h3>
    ${version !== history.version.value &&
    html`<p class="cx-bad-text">The context has changed since: this is what a round would have done then.</p>`}
    <dl class="cx-facts numbers">
      <div><dt>Tokens</dt><dd>${count(preview.tokens_before)} → about ${count(preview.tokens_after)}
        ${" "}(${percent(savedShare(preview))} less)</dd></div>
      <div><dt>Trigger</dt><dd>${count(preview.trigger)}</dd></div>
      <div><dt>Usable</dt><dd>${count(preview.usable)}</dd></div>
      <div><dt>Limit</dt><dd>${count(preview.limit)}</dd></div>
      <div><dt>Messages compacted</dt><dd>${count(messages)}</dd></div>
      <div><dt>Kept word for word</dt><dd>${count(kept.length)}</dd></div>
      <div><dt>Outputs cleared</dt><dd>${count(outputs)}</dd></div>
    </dl>
    ${messages === 0 &&
    html`<p>Nothing would become smaller: no model would be asked, and the round would come to nothing.</p>`}
    ${messages > 0 && !fits && html`<p>That is not below the trigger, so the round may go on to harsher means.</p>`}
    ${messages > 0 &&
    html`<${ContextFold} name="Messages that it would stand for" foldKey="preview-messages" history=${history}>
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
