/** Selects the model of a new session and describes it. */

import { compact } from "../core/format.js";
import { html, useContext } from "../core/ui.js";
import { OTHER } from "../state/draft.js";
import { defaultModel, isDemo, models } from "../state/models.js";
import { ChoiceField, Form, TextField } from "./fields.js";

export function ModelField() {
  const { values } = useContext(Form);
  const known = defaultModel();
  return html`<${ChoiceField} name="model" label="Model" help=${helpFor(values.model)}>
      <option value="">Server default${known ? `: ${known.name}` : ""}</option>
      ${byProvider(models.value ?? []).map(
        ([provider, group]) => html`<optgroup key=${provider} label=${labelOf(provider, group)}>
          ${group.map((model) => html`<option key=${model.name} value=${model.name}>${nameOf(model)}</option>`)}
        </optgroup>`,
      )}
      <option value=${OTHER}>Other…</option>
    <//>
    ${values.model === OTHER &&
    html`<${TextField}
      name="otherModel"
      label="Model name"
      placeholder="provider/model"
      autocapitalize="none"
    />`}`;
}

/** Those that can run come first, then the demo. */
const rank = (model) => (isDemo(model) ? 1 : model.key_present ? 0 : 2);

function byProvider(items) {
  const groups = new Map();
  const usableFirst = items.toSorted((one, other) => rank(one) - rank(other));
  for (const model of usableFirst) groups.set(model.provider, [...(groups.get(model.provider) ?? []), model]);
  return [...groups];
}

const labelOf = (provider, group) => (group[0].key_present ? provider : `${provider} (no key)`);

function nameOf(model) {
  if (isDemo(model)) return `${model.name} (scripted demo; no real model)`;
  return model.key_present ? model.name : `${model.name} (no key)`;
}

function helpFor(name) {
  const model = name === "" ? defaultModel() : models.value?.find((each) => each.name === name);
  if (!model) return undefined;
  if (isDemo(model)) return model.description;
  const facts = [
    model.description,
    `${compact(model.context_window)} tokens${model.window_source === "assumed" ? " (assumed)" : ""}`,
    priceOf(model.prices),
    model.key_present ? "" : noKey(model.provider),
  ];
  return facts.filter(Boolean).join(" · ");
}

function priceOf({ input, output }) {
  if (input === null || output === null) return "price unknown";
  return `$${input} in, $${output} out per million tokens`;
}

const KEYS = { openai: "OPENAI_API_KEY", anthropic: "ANTHROPIC_API_KEY" };

function noKey(provider) {
  return KEYS[provider] ? `needs ${KEYS[provider]} on the server` : "no key set on the server";
}
