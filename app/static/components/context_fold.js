/** A part of the context view that is folded until somebody wants it. */

import { html } from "../core/ui.js";

/** A button that opens to what is under it; `history` keeps whether it does. */
export function ContextFold({ name, foldKey, history, children }) {
  const isOpen = history.isOpen(foldKey);
  return html`<div class="cx-fold">
    <button class="plain" aria-expanded=${isOpen} onClick=${() => history.toggle(foldKey)}>
      <span aria-hidden="true">${isOpen ? "▾" : "▸"}</span> ${name}
    </button>
    ${isOpen && children}
  </div>`;
}
