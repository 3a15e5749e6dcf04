/** Changes a session's model, approval and limits. */

import { patch, sessionPath } from "../core/http.js";
import { html, useContext, useEffect, useId, useState } from "../core/ui.js";
import { errorsOf } from "../state/draft.js";
import { loadModels, models } from "../state/models.js";
import { changesOf, valuesOf } from "../state/settings.js";
import { ApprovalFields } from "./approval_fields.js";
import { Button, Dialog } from "./basic.js";
import { Form, NumberField, TextField } from "./fields.js";

/** Sends only changed fields; they take effect at the next step. */
export function SettingsDialog({ session, onClose }) {
  const [before] = useState(() => valuesOf(session));
  const [values, setValues] = useState(before);
  const [{ errors, rest }, setWrong] = useState({ errors: {}, rest: [] });
  async function save() {
    const { body, errors: wrong } = changesOf(values, before);
    setWrong({ errors: wrong, rest: [] });
    if (Object.keys(wrong).length > 0) return;
    try {
      if (Object.keys(body).length > 0) await patch(sessionPath(session.id), body);
      onClose();
    } catch (problem) {
      setWrong(errorsOf(problem));
    }
  }
  const change = (changes) => setValues({ ...values, ...changes });
  return html`<${Dialog} title="Session settings" onClose=${onClose}>
    <${Form.Provider} value=${{ values, change, errors }}>
      <p class="dim">Changes take effect at the next step.</p>
      <${ModelName} />
      <${ApprovalFields} />
      <${LimitFields} />
    <//>
    ${rest.length > 0 &&
    html`<div class="failure" role="alert">${rest.map((text) => html`<p key=${text}>${text}</p>`)}</div>`}
    <footer>
      <button type="button" onClick=${onClose}>Cancel</button>
      <${Button} kind="primary" onClick=${save}>Save<//>
    </footer>
  <//>`;
}

/** The model's name, with suggestions from the configured models. */
function ModelName() {
  const { values } = useContext(Form);
  const list = useId();
  useEffect(() => {
    // Suggestions are optional.
    loadModels().catch(() => {});
  }, []);
  const known = models.value ?? [];
  const chosen = known.find(({ name }) => name === values.model);
  const help = chosen && !chosen.key_present ? "The server has no key for this model's provider." : undefined;
  return html`<${TextField}
      name="model"
      label="Model"
      help=${help}
      list=${list}
      autocomplete="off"
      autocapitalize="none"
      spellcheck="false"
    />
    <datalist id=${list}>
      ${known.map(
        ({ name, key_present: hasKey }) => html`<option key=${name} value=${name}>${hasKey ? "" : "no key"}</option>`,
      )}
    </datalist>`;
}

function LimitFields() {
  return html`<fieldset>
    <legend>Limits</legend>
    <p class="help before-fields">A run stops at a limit and can be resumed. Leave a field empty for no limit.</p>
    <div class="fields">
      <${NumberField} name="maxSteps" label="Max steps per run" placeholder="no limit" />
      <${NumberField} name="maxSeconds" label="Max seconds per run" placeholder="no limit" />
      <${NumberField} name="maxCost" label="Max total cost ($)" placeholder="no limit" />
      <${NumberField} name="maxTokens" label="Max total tokens" placeholder="no limit" />
    </div>
  </fieldset>`;
}
