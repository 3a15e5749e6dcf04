/** What may be said of a new session besides its task and model; all of it can be left to the server. */

import { html, useContext } from "../core/ui.js";
import { AreaField, ChoiceField, Form, NumberField, TextField } from "./fields.js";

const POLICIES = {
  "": "What the server is set to.",
  reactive: "Waits until the window is full; clears old tool output, then summarises all but the newest turns.",
  threshold: "Summarises early, at 80 % of what is available, and keeps the last ten messages.",
  handoff: "Summarises at 200,000 tokens and goes on from the summary and the last request alone.",
};

const APPROVALS = {
  "": "What the server is set to.",
  never: "Tools run without asking.",
  always: "Each call of a tool waits for you.",
  some: "The calls below wait for you; all others run.",
};

/** Tools that change something, then those that read. */
const TOOLS = [
  "execute_command",
  "write_file",
  "edit_file",
  "memory_write",
  "read_file",
  "list_directory",
  "search_files",
  "recall",
  "history_search",
  "memory_read",
  "memory_search",
  "update_plan",
];

export function CreateMore() {
  return html`<div class="create-more">
    <${TextField} name="title" label="Title" placeholder="the task’s first line" maxlength="300" />
    <${CompactionField} />
    <${SandboxFields} />
    <${LimitFields} />
    <${ApprovalFields} />
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

function ApprovalFields() {
  const { values } = useContext(Form);
  return html`<fieldset>
    <legend>Approval</legend>
    <div class="fields">
      <${ChoiceField} name="approval" label="Which calls wait for you" help=${APPROVALS[values.approval]}>
        <option value="">Server’s default</option>
        <option value="never">None</option>
        <option value="always">All</option>
        <option value="some">Some tools and commands</option>
      <//>
      <${NumberField} name="timeout" label="Denied after, in seconds" placeholder="300, or the server’s default" />
    </div>
    ${values.approval === "some" && html`<${ToolChoice} /><${CommandPatterns} />`}
  </fieldset>`;
}

export function ToolChoice() {
  const { values, change, errors } = useContext(Form);
  const toggle = (name, isOn) => {
    const tools = values.tools.filter((tool) => tool !== name);
    change({ tools: isOn ? [...tools, name] : tools });
  };
  return html`<div class="checks" role="group" aria-label="Tools that wait">
    ${TOOLS.map(
      (name) => html`<label key=${name}>
        <input
          type="checkbox"
          checked=${values.tools.includes(name)}
          onChange=${(event) => toggle(name, event.currentTarget.checked)}
        />
        <code>${name}</code>
      </label>`,
    )}
    ${errors.tools && html`<p class="field-error">${errors.tools}</p>`}
  </div>`;
}

export function CommandPatterns() {
  const help = "Regular expressions, one a line. A command in which one of them is found waits.";
  return html`<${AreaField}
    name="commands"
    label="Commands that wait"
    help=${help}
    rows="3"
    class="mono"
    spellcheck="false"
    placeholder=${"\\brm\\b\n\\bgit push\\b"}
  />`;
}
