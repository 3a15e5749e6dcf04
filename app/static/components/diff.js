/** A line diff of two texts. */

import { inBlocks } from "./long_text.js";
import { plain } from "../core/format.js";
import { html, useMemo } from "../core/ui.js";
import { diffLines } from "../vendor/diff/diff/line.js";

/** If diffing takes longer than this (ms), the texts are shown one after the other. */
const TIMEOUT_MS = 100;
const SIGNS = { added: "+", removed: "-", same: " " };
const WORDS = { added: "added: ", removed: "removed: ", same: "" };

/** The pieces of a diff: `{kind: "added" | "removed" | "same", text}`. */
export function differences(before, after) {
  const found = diffLines(before, after, { timeout: TIMEOUT_MS }) ?? [
    { removed: true, value: before },
    { added: true, value: after },
  ];
  return found
    .filter(({ value }) => value !== "")
    .map(({ added, removed, value }) => ({
      kind: added ? "added" : removed ? "removed" : "same",
      text: value.endsWith("\n") ? value.slice(0, -1) : value,
    }));
}

/** The diff of two texts, each line with its sign. */
export function Diff({ before, after }) {
  const pieces = useMemo(() => differences(plain(before), plain(after)), [before, after]);
  return html`<div class="diff mono" tabindex="0" role="region" aria-label="Diff">
    ${pieces.map(({ kind, text }, place) => html`<${Piece} key=${place} kind=${kind} text=${text} />`)}
  </div>`;
}

/** Lines of one kind, in blocks if there are many. */
function Piece({ kind, text }) {
  return html`<div class=${`diff-${kind}`}>
    ${WORDS[kind] && html`<span class="hidden">${WORDS[kind]}</span>`}
    ${inBlocks(text).map((block, place) => html`<div key=${place} class="block">${signed(block, SIGNS[kind])}</div>`)}
  </div>`;
}

const signed = (text, sign) => text.split("\n").map((line) => `${sign} ${line}`).join("\n");
