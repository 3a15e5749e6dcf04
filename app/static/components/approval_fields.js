/** Form fields for which calls need approval. */

import { html, useContext } from "../core/ui.js";
import { AreaField, ChoiceField, Form, NumberField } from "./fields.js";
import { TOOL_NAMES } from "./tool_labels.js";

const APPROVALS = {
  "": "Uses the server's setting",
  never: "Tools run without approval",
  always: "Every tool call waits for your approval",
  some: "The calls below wait for your approval; all others run",
};

/** `byDefault` labels the option that leaves the choice to the server, if there is one; `timeout` is the placeholder of
 * an empty timeout. */
export function ApprovalFields({ byDefault, timeout = "no time limit" }) {
  const { values } = useContext(Form);
  return html`<fieldset>
    <legend>Approval</legend>
    <div class="fields">
      <${ChoiceField} name="approval" label="Calls that need approval" help=${APPROVALS[values.approval]}>
        ${byDefault && html`<option value="">${byDefault}</option>`}
        <option value="never">None</option>
        <option value="always">All</option>
        <option value="some">Some tools and commands</option>
      <//>
      <${NumberField} name="timeout" label="Auto-deny after (seconds)" placeholder=${timeout} />
    </div>
    ${values.approval === "some" && html`<${ToolChoice} /><${CommandPatterns} />`}
  </fieldset>`;
}

function ToolChoice() {
  const { values, change, errors } = useContext(Form);
  const toggle = (name, isOn) => {
    const tools = values.tools.filter((tool) => tool !== name);
    change({ tools: isOn ? [...tools, name] : tools });
  };
  return html`<div class="checks" role="group" aria-label="Tools that need approval">
    ${TOOL_NAMES.map(
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

function CommandPatterns() {
  const help = "Regular expressions, one per line. A command that matches any of them needs approval.";
  return html`<${AreaField}
    name="commands"
    label="Commands that need approval"
    help=${help}
    rows="3"
    class="mono"
    spellcheck="false"
    placeholder=${"\\brm\\b\n\\bgit push\\b"}
  />`;
}
