/** What may be said of a new session besides its task and model; all of it can be left to the server. */

import { html, useContext } from "../core/ui.js";
import { ApprovalFields } from "./approval_fields.js";
import { AreaField, ChoiceField, Form, NumberField, TextField } from "./fields.js";

const POLICIES = {
  "": "What the server is set to.",
  reactive: "Waits until the window is full; clears old tool output, then summarises all but the newest turns.",
  threshold: "Summarises early, at 80 % of what is available, and keeps the last ten messages.",
  handoff: "Summarises at 200,000 tokens and goes on from the summary and the last request alone.",
};

export function CreateMore() {
  return html`<div class="create-more">
    <${TextField} name="title" label="Title" placeholder="the task’s first line" maxlength="300" />
    <${CompactionField} />
    <${SandboxFields} />
    <${LimitFields} />
    <${ApprovalFields} byDefault="Server’s default" timeout="300, or the server’s default; “none” waits" />
    <${AreaField} name="systemPrompt" label="System prompt" rows="3" placeholder="the server’s own" />
  </div>`;
}

function CompactionField() {
  const { values } = useContext(Form);
  return html`<${ChoiceField} name="compaction" label="Compaction" help=${POLICIES[values.compaction]}>
    <option value="">Server’s default</option>
    <option value="reactive">Reactive</option>
    <option value="threshold">Threshold</option>
    <option value="handoff">Handoff</option>
  <//>`;
}

function SandboxFields() {
  const { values } = useContext(Form);
  const help = values.sandbox ? undefined : "Choose a sandbox to set its network.";
  return html`<fieldset>
    <legend>Sandbox</legend>
    <div class="fields">
      <${ChoiceField} name="sandbox" label="Kind">
        <option value="">Server’s default</option>
        <option value="docker">Docker</option>
        <option value="bubblewrap">Bubblewrap</option>
      <//>
      <${ChoiceField} name="network" label="Network" help=${help} disabled=${!values.sandbox}>
        <option value="">Server’s default</option>
        <option value="on">On</option>
        <option value="off">Off</option>
      <//>
    </div>
  </fieldset>`;
}

function LimitFields() {
  return html`<fieldset>
    <legend>Limits</legend>
    <p class="help">The run ends when one is reached, and can be resumed. “none” lifts a limit that the server sets.</p>
    <div class="fields">
      <${NumberField} name="maxSteps" label="Steps of a run" />
      <${NumberField} name="maxSeconds" label="Seconds of a run" />
      <${NumberField} name="maxCost" label="Dollars in all" />
      <${NumberField} name="maxTokens" label="Tokens in all" />
    </div>
  </fieldset>`;
}
