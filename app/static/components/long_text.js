/** Text of any length in a box that scrolls, all of it there. */

import { html, useMemo } from "../core/ui.js";

/** Characters that are laid out together. Blocks out of sight cost next to nothing (`content-visibility`), where a line
 * of a megabyte in one piece takes seconds. */
const BLOCK = 4_000;

/** The text under a name that screen readers say; the box can be scrolled by keyboard. */
export function LongText({ label, text }) {
  const blocks = useMemo(() => inBlocks(text), [text]);
  return html`<pre class="long-text" tabindex="0" role="region" aria-label=${label}>
    ${blocks.length === 1 ? text : blocks.map((block, place) => html`<div key=${place} class="block">${block}</div>`)}
  </pre>`;
}

/** Cuts a text into pieces, at ends of lines where there are some. The line break at a cut is the block's own. */
export function inBlocks(text) {
  const blocks = [];
  let start = 0;
  while (text.length - start > BLOCK) {
    const line = text.lastIndexOf("\n", start + BLOCK);
    const end = line > start ? line : pairEnd(text, start + BLOCK);
    blocks.push(text.slice(start, end));
    start = line > start ? end + 1 : end;
  }
  blocks.push(text.slice(start));
  return blocks;
}

/** The place of a cut that does not part the two halves of a character. */
export function pairEnd(text, end) {
  const code = text.charCodeAt(end);
  return code >= 0xdc00 && code <= 0xdfff ? end - 1 : end;
}
