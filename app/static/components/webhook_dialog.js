/** Creates a webhook, and shows its secret once; or edits one. */

import { nameOf, plainLine } from "../core/format.js";
import { get } from "../core/http.js";
import { copy } from "../core/save.js";
import { html, useContext, useEffect, useId, useRef, useState } from "../core/ui.js";
import { changeWebhook, createWebhook, errorsOf, formOf, requestOf } from "../state/webhooks.js";
import { Button, Dialog, say } from "./basic.js";
import { AreaField, ChoiceField, Form, TextField } from "./fields.js";

/** How many sessions are suggested. */
const SUGGESTED = 50;

/** `webhook` is the one to edit; without it a new one is created. */
export function WebhookDialog({ webhook, onClose }) {
  const [values, setValues] = useState(() => formOf(webhook));
  const [errors, setErrors] = useState({});
  const [secret, setSecret] = useState(null);
  const form = useRef(null);
  useEffect(() => {
    form.current?.querySelector('[aria-invalid="true"]')?.focus();
  }, [errors]);
  if (secret) return html`<${SecretDialog} url=${values.url} secret=${secret} onClose=${onClose} />`;
  async function save() {
    const { body, errors: wrong } = requestOf(values, !webhook);
    setErrors(wrong);
    if (Object.keys(wrong).length > 0) return;
    try {
      if (webhook) await changeWebhook(webhook.id, body);
      else return setSecret(await createWebhook(body));
    } catch (problem) {
      return setErrors(errorsOf(problem));
    }
    return onClose();
  }
  const change = (changes) => setValues({ ...values, ...changes });
  return html`<${Dialog} title=${webhook ? "Edit webhook" : "New webhook"} onClose=${onClose}>
    <div class="webhook-form" ref=${form}>
      <${Form.Provider} value=${{ values, change, errors }}>
        <${TextField}
          name="url"
          label="URL"
          inputmode="url"
          autocomplete="off"
          autocapitalize="none"
          spellcheck=${false}
          placeholder="https://hooks.example.com/palimpsest"
        />
        <${EventFields} />
        ${webhook ? html`<${FixedSession} webhook=${webhook} />` : html`<${SessionField} />`}
      <//>
    </div>
    ${errors.rest && html`<div class="failure" role="alert"><p>${errors.rest}</p></div>`}
    <footer>
      <button type="button" onClick=${onClose}>Cancel</button>
      <${Button} kind="primary" onClick=${save}>${webhook ? "Save" : "Create"}<//>
    </footer>
  <//>`;
}

function EventFields() {
  const { values } = useContext(Form);
  return html`<${ChoiceField} name="kind" label="Events">
      <option value="attention">A run has ended, or a call needs approval</option>
      <option value="all">All events</option>
      <option value="some">Some events…</option>
    <//>
    ${values.kind === "some" &&
    html`<${AreaField}
      name="events"
      label="Event names"
      help="One per line: a name such as session.idle, or all names of a topic, such as approval.*"
      rows="4"
      class="mono"
      spellcheck=${false}
      autocapitalize="none"
      placeholder=${"session.idle\napproval.*"}
    />`}`;
}

/** The id of a session, with the newest ones as suggestions. */
function SessionField() {
  const list = useId();
  const [sessions, setSessions] = useState([]);
  useEffect(() => {
    // Suggestions are optional.
    get(`/v1/sessions?limit=${SUGGESTED}`).then(({ items }) => setSessions(items), () => {});
  }, []);
  return html`<${TextField}
      name="session"
      label="Session"
      placeholder="all sessions"
      help="The id of a session, to send only its events"
      list=${list}
      autocomplete="off"
      autocapitalize="none"
      spellcheck=${false}
    />
    <datalist id=${list}>
      ${sessions.map((session) => html`<option key=${session.id} value=${session.id}>${nameOf(session)}</option>`)}
    </datalist>`;
}

function FixedSession({ webhook: { session_id: id } }) {
  return html`<p class="dim">${id ? html`Only events of session <code>${id}</code>` : "Events of all sessions"}</p>`;
}

function SecretDialog({ url, secret, onClose }) {
  const id = useId();
  const field = useRef(null);
  useEffect(() => field.current.select(), []);
  return html`<${Dialog} title="Webhook created" staysOpen=${true} onClose=${onClose}>
    <p>
      Receivers at <code>${plainLine(url)}</code> verify what they get with this secret. Copy it now; it is not shown
      again.
    </p>
    <div class="field">
      <label for=${id}>Signing secret</label>
      <div class="copy-row">
        <input ref=${field} id=${id} class="mono" readonly autocomplete="off" value=${secret} />
        <${Button} onClick=${() => copy(secret).then(() => say("Copied."))}>Copy<//>
      </div>
    </div>
    <footer><button type="button" class="primary" onClick=${onClose}>Done</button></footer>
  <//>`;
}
