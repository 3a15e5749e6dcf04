/** A model's reasoning, collapsed by default. */

import { Fold } from "./fold.js";
import { inBlocks } from "./long_text.js";
import { count, plain } from "../core/format.js";
import { html } from "../core/ui.js";

export function Reasoning({ part, isWriting }) {
  const size = `${count(part.text.length)} ${part.text.length === 1 ? "character" : "characters"}`;
  const head = html`<span>${isWriting ? "Reasoning…" : "Reasoning"}</span> <span class="dim numbers">${size}</span>`;
  return html`<${Fold} id=${part.id} head=${head} kind="reasoning">
    ${() =>
      inBlocks(plain(part.text)).map(
        (piece, place) => html`<div key=${place} class="as-is block" dir="auto">${piece}</div>`,
      )}
  <//>`;
}
