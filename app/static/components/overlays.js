/** What keyboard shortcuts open: their list, the palette, and the search of the open session. */

import { Dialog } from "./basic.js";
import { Palette } from "./palette.js";
import { SessionSearch } from "./session_search.js";
import { route } from "../core/router.js";
import { html, useEffect } from "../core/ui.js";
import { onKey, overlay, SHORTCUTS } from "../state/keys.js";

export function Overlays() {
  useEffect(() => {
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const close = () => (overlay.value = null);
  const { page, id } = route.value;
  if (overlay.value === "help") return html`<${Help} onClose=${close} />`;
  if (overlay.value === "palette") return html`<${Palette} onClose=${close} />`;
  if (overlay.value === "search" && page === "session") return html`<${SessionSearch} id=${id} onClose=${close} />`;
  return null;
}

function Help({ onClose }) {
  return html`<${Dialog} title="Keyboard shortcuts" onClose=${onClose}>
    <dl class="shortcuts">
      ${SHORTCUTS.map(
        ({ key, label }) => html`<div key=${key}>
          <dt>${key.split("+").map((part) => html`<kbd key=${part}>${part}</kbd>`)}</dt>
          <dd>${label}</dd>
        </div>`,
      )}
    </dl>
    <p class="dim">Shortcuts are off while you type in a field. Settings can turn off those without Ctrl.</p>
  <//>`;
}
