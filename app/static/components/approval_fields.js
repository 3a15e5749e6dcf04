/** Which calls wait for a person, as a part of a form. */

import { html, useContext } from "../core/ui.js";
import { AreaField, ChoiceField, Form, NumberField } from "./fields.js";

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

/** `byDefault` names the choice that leaves it to the server, where there is one; `timeout` is what an empty field
 * stands for. */
export function ApprovalFields({ byDefault, timeout = "no time limit" }) {
  const { values } = useContext(Form);
  return html`<fieldset>
    <legend>Approval</legend>
    <div class="fields">
      <${ChoiceField} name="approval" label="Which calls wait for you" help=${APPROVALS[values.approval]}>
        ${byDefault && html`<option value="">${byDefault}</option>`}
        <option value="never">None</option>
        <option value="always">All</option>
        <option value="some">Some tools and commands</option>
      <//>
      <${NumberField} name="timeout" label="Denied after, in seconds" placeholder=${timeout} />
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

function CommandPatterns() {
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
