/** Text of any length, shown in full in a box that scrolls. */

import { html, useMemo } from "../core/ui.js";

/** Characters that are laid out together. Blocks out of view cost next to nothing (`content-visibility`), while a line
 * of a megabyte in one piece takes seconds. */
const BLOCK = 4_000;

/** A text with a label for screen readers; the box can be scrolled by keyboard. */
export function LongText({ label, text }) {
  const blocks = useMemo(() => inBlocks(text), [text]);
  return html`<pre class="long-text" tabindex="0" role="region" aria-label=${label}>
    ${blocks.length === 1 ? text : blocks.map((block, place) => html`<div key=${place} class="block">${block}</div>`)}
  </pre>`;
}

/** Splits a text into blocks, at line ends if possible. A line break at a cut is dropped: the block makes it. */
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

/** An offset for a cut that does not split a surrogate pair. */
export function pairEnd(text, end) {
  const code = text.charCodeAt(end);
  return code >= 0xdc00 && code <= 0xdfff ? end - 1 : end;
}
