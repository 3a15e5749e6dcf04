/** The lines of a file's diff, of which only the visible ones are drawn: the box has its full height and scrolls with
 * the view, so that a diff of any length costs the same. */

import { cut, pieces } from "../core/text_rows.js";
import { rowsOfDiff } from "../core/patch.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../core/ui.js";
import { characterWidth } from "./character_width.js";
import { colored, highlighted, languageOf } from "./highlight.js";

/** The height of a line in px, as in the style sheet. */
const LINE = 20;
/** Rows drawn beyond the visible area; the range moves by as many. */
const BEYOND = 30;
/** Longer texts, in characters, are shown without highlighting. */
const LONGEST = 200_000;
const FEWEST = 20;
/** The width of the line numbers and signs in characters. */
const MARGIN = 14;
const SIGNS = { added: "+", removed: "-", same: " ", hunk: " ", end: " " };
const WORDS = { added: "added", removed: "removed" };

/** The lines of a diff (see core/patch.js) of the file at `path`. */
export function DiffRows({ diff, path }) {
  const box = useRef(null);
  const [columns, setColumns] = useState(80);
  const rows = useMemo(() => rowsOfDiff(diff, columns, cut), [diff, columns]);
  const [first, last] = useSight(box, rows.length);
  const tokens = { before: useTokens(diff.texts.before, path), after: useTokens(diff.texts.after, path), notes: [] };
  useLayoutEffect(() => {
    const fit = () => {
      const fitting = Math.floor(box.current.clientWidth / characterWidth()) - MARGIN;
      setColumns(Math.max(FEWEST, fitting));
    };
    fit();
    const observer = new ResizeObserver(fit);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const height = `${rows.length * LINE}px`;
  return html`<div ref=${box} class="diff-rows" style=${{ height }}>
    <div class="diff-sight" style=${{ transform: `translateY(${first * LINE}px)` }}>
      ${rows.slice(first, last).map((row, place) => html`<${Row} key=${first + place} ...${{ row, diff, tokens }} />`)}
    </div>
  </div>`;
}

function Row({ row: { line, from, to }, diff, tokens }) {
  const { kind, side, old, new: now, start } = diff.lines[line];
  const isFirst = from === start;
  return html`<div class="diff-line ${kind}">
    <span class="diff-number" aria-hidden="true">${isFirst ? old : null}</span>
    <span class="diff-number" aria-hidden="true">${isFirst ? now : null}</span>
    <span class="diff-sign" aria-hidden="true">${isFirst ? SIGNS[kind] : " "}</span>
    ${isFirst && WORDS[kind] && html`<span class="hidden">${WORDS[kind]}: </span>`}
    <code dir="ltr">${pieces(diff.texts[side], from, to, tokens[side]).map(colored)}</code>
  </div>`;
}

/** The range of rows near the visible area of the closest scrolling view. */
function useSight(box, count) {
  const [start, setStart] = useState({ first: 0, last: 2 * BEYOND });
  useLayoutEffect(() => {
    const scroller = box.current.closest(".transcript-box, .view");
    const look = () => {
      const above = scroller.getBoundingClientRect().top - box.current.getBoundingClientRect().top;
      const top = Math.floor(above / LINE / BEYOND) * BEYOND;
      const seen = Math.ceil(scroller.clientHeight / LINE / BEYOND + 1) * BEYOND;
      const [first, last] = [Math.max(0, top - BEYOND), Math.max(0, top + seen + BEYOND)];
      setStart((before) => (before.first === first && before.last === last ? before : { first, last }));
    };
    look();
    // What is above may grow or shrink too.
    const observer = new ResizeObserver(look);
    observer.observe(scroller);
    observer.observe(scroller.firstElementChild);
    scroller.addEventListener("scroll", look, { passive: true });
    return () => {
      observer.disconnect();
      scroller.removeEventListener("scroll", look);
    };
  }, []);
  const first = Math.min(start.first, Math.max(0, count - 1));
  return [first, Math.min(count, start.last)];
}

/** The colored ranges of a text; empty until they are found, or if that takes too long. */
function useTokens(text, path) {
  const [found, setFound] = useState({ text: null, tokens: [] });
  useEffect(() => {
    const language = languageOf(path);
    if (!language || text === "" || text.length > LONGEST) return undefined;
    let isWanted = true;
    highlighted(text, language).then((tokens) => isWanted && tokens && setFound({ text, tokens }));
    return () => {
      isWanted = false;
    };
  }, [text, path]);
  return found.text === text ? found.tokens : [];
}
