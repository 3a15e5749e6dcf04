/** Things that are opened and closed, and stay as they were left while their rows scroll out of sight and back. */

import { createContext, html, signal, useContext } from "../core/ui.js";

/** What is open, by a key of its own. */
export class Folds {
  #open = new Map();

  /** The signal of whether a thing is open. */
  of(key) {
    if (!this.#open.has(key)) this.#open.set(key, signal(false));
    return this.#open.get(key);
  }
}

export const FoldsContext = createContext(new Folds());

/** A button that shows and hides what `children`, a function, draws. `id` names the thing among all folds. */
export function Fold({ id, head, kind = "", children }) {
  const isOpen = useContext(FoldsContext).of(id);
  const toggle = () => (isOpen.value = !isOpen.value);
  return html`<div class="fold ${kind}">
    <button type="button" class="fold-head" aria-expanded=${isOpen.value} onClick=${toggle}>
      <span class="fold-mark" aria-hidden="true">${isOpen.value ? "▾" : "▸"}</span>${head}
    </button>
    ${isOpen.value && html`<div class="fold-body">${children()}</div>`}
  </div>`;
}
