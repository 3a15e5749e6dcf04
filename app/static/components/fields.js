/** Form fields: a label, the control, a help text and an error. */

import { createContext, html, useContext, useId } from "../core/ui.js";

/** The form of the fields below: `{values, change(changes), errors}`, all by field name. */
export const Form = createContext({ values: {}, change: () => {}, errors: {} });

/** `control(props)` renders the control with the props that link it to its label, help and error. */
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

/** A single-line text field. */
export function TextField({ name, label, help, ...rest }) {
  const { values, change } = useContext(Form);
  const onInput = (event) => change({ [name]: event.currentTarget.value });
  const control = (props) =>
    html`<input type="text" value=${values[name]} onInput=${onInput} ...${props} ...${rest} />`;
  return html`<${Field} name=${name} label=${label} help=${help} control=${control} />`;
}

/** A multi-line text field. */
export function AreaField({ name, label, help, ...rest }) {
  const { values, change } = useContext(Form);
  const onInput = (event) => change({ [name]: event.currentTarget.value });
  const control = (props) =>
    html`<textarea value=${values[name]} onInput=${onInput} ...${props} ...${rest}></textarea>`;
  return html`<${Field} name=${name} label=${label} help=${help} control=${control} />`;
}

/** A select field; the children are its options. */
export function ChoiceField({ name, label, help, children, ...rest }) {
  const { values, change } = useContext(Form);
  const onChange = (event) => change({ [name]: event.currentTarget.value });
  const control = (props) =>
    html`<select value=${values[name]} onChange=${onChange} ...${props} ...${rest}>${children}</select>`;
  return html`<${Field} name=${name} label=${label} help=${help} control=${control} />`;
}

/** A number field that also accepts text such as "none". */
export function NumberField(props) {
  return html`<${TextField} inputmode="decimal" autocomplete="off" placeholder="server default" ...${props} />`;
}
