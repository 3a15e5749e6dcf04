/** A search field with a list of choices below it, as the combobox of WAI-ARIA: arrow keys move, Enter chooses. */

import { html, useEffect, useId, useRef, useState } from "../core/ui.js";

/** `items` are `{key, content, choose}`; `onText` gets what the user types, `empty` is shown without items. */
export function Choices({ label, text, onText, items, empty }) {
  const id = useId();
  const list = useRef(null);
  const [at, setAt] = useState(0);
  const active = Math.min(at, items.length - 1);
  useEffect(() => setAt(0), [text]);
  useEffect(() => list.current?.children[active]?.scrollIntoView({ block: "nearest" }), [active, items]);
  const onKeyDown = (event) => {
    if (event.isComposing) return;
    const next = { ArrowDown: active + 1, ArrowUp: active - 1 }[event.key];
    if (next !== undefined) setAt((next + items.length) % (items.length || 1));
    else if (event.key === "Enter") items[active]?.choose();
    else return;
    event.preventDefault();
  };
  return html`<div class="combobox">
    <input
      type="text"
      role="combobox"
      autofocus
      aria-label=${label}
      placeholder=${label}
      maxlength="500"
      autocomplete="off"
      spellcheck=${false}
      aria-expanded=${items.length > 0}
      aria-controls=${id}
      aria-activedescendant=${active >= 0 ? `${id}-${active}` : undefined}
      value=${text}
      onInput=${(event) => onText(event.currentTarget.value)}
      onKeyDown=${onKeyDown}
    />
    <ul ref=${list} id=${id} role="listbox" aria-label="Results">
      ${items.map(
        ({ key, content, choose }, index) => html`<li
          key=${key}
          id="${id}-${index}"
          role="option"
          aria-selected=${index === active}
          onClick=${choose}
          onPointerMove=${() => setAt(index)}
        >
          ${content}
        </li>`,
      )}
    </ul>
    <p class="dim" role="status">${items.length === 0 ? empty : ""}</p>
  </div>`;
}

/** What `load` returns for the text, once the user has stopped writing for a moment: `[found, problem, text]`, which
 * may still be for an earlier text. */
export function useFound(text, load, pauseMs) {
  const [state, setState] = useState([null, null, null]);
  useEffect(() => {
    let isCurrent = true;
    const set = (state) => isCurrent && setState(state);
    const start = () => load(text).then((found) => set([found, null, text]), (problem) => set([null, problem, text]));
    const timer = setTimeout(start, text ? pauseMs : 0);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [text]);
  return state;
}
