/** Collapsible elements that keep their state while their rows scroll out of view and back. */

import { Icon } from "./icon.js";
import { createContext, html, useContext } from "../core/ui.js";

/** The `Folds` of the current session; null by default. */
export const FoldsContext = createContext(null);

/** A button that shows and hides what the function `children` renders. `id` is unique among all folds. */
export function Fold({ id, head, kind = "", children }) {
  const folds = useContext(FoldsContext);
  const isOpen = folds.of(id).value;
  return html`<div class="fold ${kind}">
    <button type="button" class="fold-head" aria-expanded=${isOpen} onClick=${() => folds.toggle(id)}>
      <${Icon} name=${isOpen ? "down" : "right"} />${head}
    </button>
    ${isOpen && html`<div class="fold-body">${children()}</div>`}
  </div>`;
}
