/** Names and values of secrets. Values are held in memory only, and never shown again once they are sent. */

import { html, useContext, useLayoutEffect, useRef } from "../core/ui.js";
import { newSecret } from "../state/draft_inputs.js";
import { Field, Form, TextField } from "./fields.js";

/** The secrets of a new session, one row each. */
export function SecretFields() {
  const { values, change, errors } = useContext(Form);
  const { secrets } = values;
  const box = useRef(null);
  const count = useRef(secrets.length);
  // Before the next key arrives.
  useLayoutEffect(() => {
    const isAdded = secrets.length > count.current;
    const isRemoved = secrets.length < count.current;
    count.current = secrets.length;
    if (isAdded) box.current.querySelector(".secret-row:last-of-type input").focus();
    else if (isRemoved) box.current.querySelector("button.add").focus();
  }, [secrets.length]);
  const put = (key, changes) =>
    change({ secrets: secrets.map((secret) => (secret.key === key ? { ...secret, ...changes } : secret)) });
  const remove = (key) => change({ secrets: secrets.filter((secret) => secret.key !== key) });
  return html`<div class="secrets" ref=${box}>
    <p class="help">
      Commands get them as environment variables. The server stores them encrypted, and replaces their values with${" "}
      <code>[secret NAME]</code> in what commands print.
    </p>
    ${secrets.map(
      ({ key, ...secret }) => html`<${Form.Provider}
        key=${key}
        value=${{
          values: secret,
          change: (changes) => put(key, changes),
          errors: { name: errors[`secrets.${key}.name`], value: errors[`secrets.${key}.value`] },
        }}
      >
        <div class="secret-row" role="group" aria-label=${`Secret ${secret.name}`}>
          <${SecretNameField} />
          <${SecretValueField} />
          <button type="button" aria-label=${`Remove secret ${secret.name}`} onClick=${() => remove(key)}>Remove</button>
        </div>
      <//>`,
    )}
    ${errors.secrets && html`<p class="field-error" role="alert">${errors.secrets}</p>`}
    <button type="button" class="add" onClick=${() => change({ secrets: [...secrets, newSecret()] })}>Add secret</button>
  </div>`;
}

export function SecretNameField() {
  return html`<${TextField}
    name="name"
    label="Name"
    placeholder="API_TOKEN"
    autocomplete="off"
    autocapitalize="characters"
    spellcheck=${false}
    maxlength="100"
  />`;
}

/** A password field; a value of several lines, such as a private key, gets a field that has room for them. */
export function SecretValueField() {
  const { values, change } = useContext(Form);
  const onInput = (event) => change({ value: event.currentTarget.value });
  // A password field drops line breaks.
  const onPaste = (event) => {
    const text = event.clipboardData.getData("text/plain");
    if (!text.trimEnd().includes("\n")) return;
    event.preventDefault();
    change({ value: text });
  };
  const control = (props) =>
    values.value.includes("\n")
      ? html`<textarea class="masked" rows="3" spellcheck=${false} autocomplete="off" value=${values.value}
          onInput=${onInput} ...${props}></textarea>`
      : html`<input type="password" autocomplete="new-password" value=${values.value} onInput=${onInput}
          onPaste=${onPaste} ...${props} />`;
  return html`<${Field} name="value" label="Value" help="At least 8 characters" control=${control} />`;
}
