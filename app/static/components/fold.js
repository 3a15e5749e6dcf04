/** Things that are opened and closed, and stay as they were left while their rows scroll out of sight and back. */

import { createContext, html, useContext } from "../core/ui.js";

/** The `Folds` of what is drawn. There are none by default: they belong to one session. */
export const FoldsContext = createContext(null);

/** A button that shows and hides what `children`, a function, draws. `id` names the thing among all folds. */
export function Fold({ id, head, kind = "", children }) {
  const folds = useContext(FoldsContext);
  const isOpen = folds.of(id).value;
  return html`<div class="fold ${kind}">
    <button type="button" class="fold-head" aria-expanded=${isOpen} onClick=${() => folds.toggle(id)}>
      <span class="fold-mark" aria-hidden="true">${isOpen ? "▾" : "▸"}</span>${head}
    </button>
    ${isOpen && html`<div class="fold-body">${children()}</div>`}
  </div>`;
}
