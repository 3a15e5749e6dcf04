/** Text of any length, shown in full in a box that scrolls. */

import { pieces } from "../core/text_rows.js";
import { html, useMemo } from "../core/ui.js";

/** Characters that are laid out together. Blocks out of view cost next to nothing (`content-visibility`), while a line
 * of a megabyte in one piece takes seconds. */
const BLOCK = 4_000;

/** A text with a label for screen readers; the box can be scrolled by keyboard. `tokens` are its colored ranges. */
export function LongText({ label, text, tokens = [] }) {
  const ranges = useMemo(() => blockRanges(text), [text]);
  const drawn = ([start, end]) => pieces(text, start, end, tokens).map(styled);
  return html`<pre class="long-text" tabindex="0" role="region" aria-label=${label}>
    ${ranges.length === 1
      ? drawn(ranges[0])
      : ranges.map((range, place) => html`<div key=${place} class="block">${drawn(range)}</div>`)}
  </pre>`;
}

/** A piece of a text, with its scope as its classes. */
export const styled = ({ text, scope }) => (scope ? html`<span class=${scope}>${text}</span>` : text);

/** Splits a text into blocks, at line ends if possible. A line break at a cut is dropped: the block makes it. */
export const inBlocks = (text) => blockRanges(text).map(([start, end]) => text.slice(start, end));

function blockRanges(text) {
  const blocks = [];
  let start = 0;
  while (text.length - start > BLOCK) {
    const line = text.lastIndexOf("\n", start + BLOCK);
    const end = line > start ? line : pairEnd(text, start + BLOCK);
    blocks.push([start, end]);
    start = line > start ? end + 1 : end;
  }
  blocks.push([start, text.length]);
  return blocks;
}

/** An offset for a cut that does not split a surrogate pair. */
export function pairEnd(text, end) {
  const code = text.charCodeAt(end);
  return code >= 0xdc00 && code <= 0xdfff ? end - 1 : end;
}
