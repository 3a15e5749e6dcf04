/** Filters the event log by event type and text. */

import { html, useEffect, useId, useRef, useState } from "../core/ui.js";
import { TYPES } from "../state/event_log.js";

/** `types` are the shown types, all if empty; `text` is the text that events must contain. */
export function EventFilter({ types, onTypes, text, onText }) {
  const id = useId();
  return html`<${TypeChooser} types=${types} onTypes=${onTypes} />
    <div class="event-search">
      <label class="hidden" for=${id}>Filter events</label>
      <input
        id=${id}
        type="search"
        placeholder="Filter events"
        value=${text}
        onInput=${(event) => onText(event.currentTarget.value)}
      />
    </div>`;
}

function TypeChooser({ types, onTypes }) {
  const [isOpen, setOpen] = useState(false);
  const box = useRef(null);
  const id = useId();
  useEffect(() => {
    if (!isOpen) return undefined;
    const onPointer = (event) => !box.current.contains(event.target) && setOpen(false);
    document.addEventListener("pointerdown", onPointer);
    return () => document.removeEventListener("pointerdown", onPointer);
  }, [isOpen]);
  const onKeyDown = (event) => {
    if (event.key !== "Escape" || !isOpen) return;
    setOpen(false);
    box.current.querySelector("button").focus();
  };
  const toggle = (type) => onTypes(types.includes(type) ? types.filter((each) => each !== type) : [...types, type]);
  return html`<div class="type-chooser" ref=${box} onKeyDown=${onKeyDown}>
    <button type="button" aria-expanded=${isOpen} aria-controls=${id} onClick=${() => setOpen(!isOpen)}>
      ${types.length === 0 ? "All types" : types.length === 1 ? types[0] : `${types.length} types`}
      ${" "}<span aria-hidden="true">▾</span>
    </button>
    <div id=${id} class="type-panel" hidden=${!isOpen}>
      ${Object.entries(TYPES).map(
        ([group, names]) => html`<${Group} key=${group} ...${{ group, names, types, toggle }} />`,
      )}
      <button type="button" disabled=${types.length === 0} onClick=${() => onTypes([])}>Show all types</button>
    </div>
  </div>`;
}

function Group({ group, names, types, toggle }) {
  return html`<fieldset>
    <legend>${group}</legend>
    ${names.map(
      (name) => html`<label class="check" key=${name}>
        <input type="checkbox" checked=${types.includes(name)} onChange=${() => toggle(name)} />
        <code>${name}</code>
      </label>`,
    )}
  </fieldset>`;
}
