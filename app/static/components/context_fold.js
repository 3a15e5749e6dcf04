/** A collapsible part of the context view. */

import { html } from "../core/ui.js";

/** A button that expands its children; `history` stores whether it is open. */
export function ContextFold({ name, foldKey, history, children }) {
  const isOpen = history.isOpen(foldKey);
  return html`<div class="cx-fold">
    <button class="plain" aria-expanded=${isOpen} onClick=${() => history.toggle(foldKey)}>
      <span aria-hidden="true">${isOpen ? "▾" : "▸"}</span> ${name}
    </button>
    ${isOpen && children}
  </div>`;
}
