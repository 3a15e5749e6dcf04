/** The optional fields of a new session. */

import { html, useContext } from "../core/ui.js";
import { ApprovalFields } from "./approval_fields.js";
import { AreaField, ChoiceField, Form, NumberField, TextField } from "./fields.js";

const POLICIES = {
  "": "Uses the server's setting",
  reactive: "Waits until the context is full, then summarizes all but the newest work",
  threshold: "Summarizes early, at 80% of the usable context, and keeps the last ten messages",
  handoff: "Summarizes at 200,000 tokens and continues with only the summary and the last request",
};

export function CreateMore() {
  return html`<div class="create-more">
    <${TextField} name="title" label="Title" placeholder="first line of the task" maxlength="300" />
    <${CompactionField} />
    <${SandboxFields} />
    <${LimitFields} />
    <${ApprovalFields} byDefault="Server default" timeout="300, or the server default; “none” for no limit" />
    <${AreaField} name="systemPrompt" label="System prompt" rows="3" placeholder="server default" />
    <${OutputField} />
  </div>`;
}

function OutputField() {
  const help = "A JSON Schema. The run completes only with a value that matches it, which is the session's output.";
  return html`<${AreaField}
    name="output"
    label="Output (JSON Schema)"
    help=${help}
    rows="4"
    class="mono"
    spellcheck=${false}
    autocapitalize="none"
    placeholder=${'{"type": "object", "properties": {"passed": {"type": "boolean"}}, "required": ["passed"]}'}
  />`;
}

function CompactionField() {
  const { values } = useContext(Form);
  return html`<${ChoiceField} name="compaction" label="Compaction" help=${POLICIES[values.compaction]}>
    <option value="">Server default</option>
    <option value="reactive">Reactive</option>
    <option value="threshold">Threshold</option>
    <option value="handoff">Handoff</option>
  <//>`;
}

function SandboxFields() {
  const { values } = useContext(Form);
  const help = values.sandbox ? undefined : "Choose a sandbox to set its network";
  return html`<fieldset>
    <legend>Sandbox</legend>
    <div class="fields">
      <${ChoiceField} name="sandbox" label="Kind">
        <option value="">Server default</option>
        <option value="docker">Docker</option>
        <option value="bubblewrap">Bubblewrap</option>
      <//>
      <${ChoiceField} name="network" label="Network" help=${help} disabled=${!values.sandbox}>
        <option value="">Server default</option>
        <option value="on">On</option>
        <option value="off">Off</option>
      <//>
    </div>
  </fieldset>`;
}

function LimitFields() {
  return html`<fieldset>
    <legend>Limits</legend>
    <p class="help">A run stops at a limit and can be resumed. Enter “none” to remove a limit set by the server.</p>
    <div class="fields">
      <${NumberField} name="maxSteps" label="Max steps per run" />
      <${NumberField} name="maxSeconds" label="Max seconds per run" />
      <${NumberField} name="maxCost" label="Max total cost ($)" />
      <${NumberField} name="maxTokens" label="Max total tokens" />
    </div>
  </fieldset>`;
}
