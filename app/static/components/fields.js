/** Fields of a form: a label, the control, what it means, and what is wrong with it. */

import { createContext, html, useContext, useId } from "../core/ui.js";

/** What the fields below read: `{values, change(changes), errors}`, all by field name. */
export const Form = createContext({ values: {}, change: () => {}, errors: {} });

/** `control(props)` draws the control with the props that tie it to its label and its sentences. */
export function Field({ name, label, help, control }) {
  const id = useId();
  const error = useContext(Form).errors[name];
  const described = [error && `${id}-error`, help && `${id}-help`].filter(Boolean).join(" ");
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${control({ id, "aria-describedby": described || undefined, "aria-invalid": error ? "true" : undefined })}
    ${error && html`<p class="field-error" id="${id}-error">${error}</p>`}
    ${help && html`<p class="help" id="${id}-help">${help}</p>`}
  </div>`;
}

/** One line of text. */
export function TextField({ name, label, help, ...rest }) {
  const { values, change } = useContext(Form);
  const onInput = (event) => change({ [name]: event.currentTarget.value });
  const control = (props) =>
    html`<input type="text" value=${values[name]} onInput=${onInput} ...${props} ...${rest} />`;
  return html`<${Field} name=${name} label=${label} help=${help} control=${control} />`;
}

/** Several lines of text. */
export function AreaField({ name, label, help, ...rest }) {
  const { values, change } = useContext(Form);
  const onInput = (event) => change({ [name]: event.currentTarget.value });
  const control = (props) =>
    html`<textarea value=${values[name]} onInput=${onInput} ...${props} ...${rest}></textarea>`;
  return html`<${Field} name=${name} label=${label} help=${help} control=${control} />`;
}

/** One of several; the children are the options. */
export function ChoiceField({ name, label, help, children, ...rest }) {
  const { values, change } = useContext(Form);
  const onChange = (event) => change({ [name]: event.currentTarget.value });
  const control = (props) =>
    html`<select value=${values[name]} onChange=${onChange} ...${props} ...${rest}>${children}</select>`;
  return html`<${Field} name=${name} label=${label} help=${help} control=${control} />`;
}

/** A number, or "none" where there may be none. */
export function NumberField(props) {
  return html`<${TextField} inputmode="decimal" autocomplete="off" placeholder="server’s default" ...${props} />`;
}
