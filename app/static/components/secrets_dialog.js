/** The secrets of a session: their names, and forms to add, replace and delete them. No request returns a value. */

import { day } from "../core/format.js";
import { call, get, remove, sessionPath } from "../core/http.js";
import { html, useEffect, useRef, useState } from "../core/ui.js";
import { nameProblem, valueProblem } from "../state/draft_inputs.js";
import { Ago, Button, Confirm, Dialog, Failure } from "./basic.js";
import { Form } from "./fields.js";
import { SecretNameField, SecretValueField } from "./secret_fields.js";

const EMPTY = { name: "", value: "" };

export function SecretsDialog({ sessionId, onClose }) {
  const { items, problem, load } = useSecrets(sessionId);
  const [values, setValues] = useState(EMPTY);
  const [deleting, setDeleting] = useState(null);
  const form = useRef(null);
  const replace = (name) => {
    setValues({ name, value: "" });
    form.current.querySelector("input[type=password]").focus();
  };
  const confirm = async () => {
    await remove(sessionPath(sessionId, "secrets", deleting));
    await load();
  };
  return html`<${Dialog} title="Secrets" onClose=${onClose}>
    <p class="dim">
      Commands get them as environment variables, from the next step on. Values are never shown again; in outputs they
      are replaced by <code>[secret NAME]</code>. Forks don't get them.
    </p>
    ${problem && html`<${Failure} problem=${problem} onRetry=${load} />`}
    ${items?.length === 0 && html`<p>No secrets yet.</p>`}
    ${items?.length > 0 &&
    html`<ul class="secret-list" aria-label="Secrets">
      ${items.map(
        (item) => html`<${Row} key=${item.name} item=${item} onReplace=${replace} onDelete=${setDeleting} />`,
      )}
    </ul>`}
    <div ref=${form}>
      <${SaveForm} ...${{ sessionId, values, setValues, items: items ?? [], onSaved: load }} />
    </div>
    <footer><button type="button" onClick=${onClose}>Done</button></footer>
    ${deleting &&
    html`<${Confirm}
      title="Delete secret?"
      text="Commands no longer get ${deleting}, and its value is no longer replaced in new outputs."
      verb="Delete"
      onConfirm=${confirm}
      onClose=${() => setDeleting(null)}
    />`}
  <//>`;
}

function useSecrets(sessionId) {
  const [items, setItems] = useState(null);
  const [problem, setProblem] = useState(null);
  const load = async () => {
    try {
      setItems((await get(sessionPath(sessionId, "secrets"))).items);
      setProblem(null);
    } catch (failure) {
      setProblem(failure);
    }
  };
  useEffect(() => {
    load();
  }, [sessionId]);
  return { items, problem, load };
}

function Row({ item: { name, created_at: createdAt, updated_at: updatedAt }, onReplace, onDelete }) {
  const verb = updatedAt === createdAt ? "added" : "replaced";
  return html`<li>
    <code>${name}</code>
    <span class="dim" title=${`added ${day(createdAt)}`}>${verb} <${Ago} time=${updatedAt} /></span>
    <button type="button" aria-label=${`Replace ${name}`} onClick=${() => onReplace(name)}>Replace</button>
    <button type="button" class="danger" aria-label=${`Delete ${name}`} onClick=${() => onDelete(name)}>Delete</button>
  </li>`;
}

/** Adds a secret, or replaces the one that has the name. */
function SaveForm({ sessionId, values, setValues, items, onSaved }) {
  const [errors, setErrors] = useState({});
  const isKnown = items.some(({ name }) => name === values.name.trim());
  async function save() {
    const name = values.name.trim();
    const found = { name: nameProblem(name), value: valueProblem(values.value) };
    if (found.name || found.value) return setErrors(found);
    try {
      await call("PUT", sessionPath(sessionId, "secrets", name), { body: { value: values.value } });
    } catch (problem) {
      const [error] = problem.body.errors ?? [];
      return setErrors({ [error?.field.startsWith("value") ? "value" : "name"]: error?.message ?? problem.message });
    }
    setErrors({});
    setValues(EMPTY);
    return onSaved();
  }
  const change = (changes) => setValues({ ...values, ...changes });
  return html`<${Form.Provider} value=${{ values, change, errors }}>
    <div class="secret-row" role="group" aria-label=${isKnown ? "Replace a secret" : "Add a secret"}>
      <${SecretNameField} />
      <${SecretValueField} />
      <${Button} onClick=${save}>${isKnown ? "Replace" : "Add"}<//>
    </div>
  <//>`;
}
