/** One file of the workspace: its text with line numbers and syntax highlighting. */

import { bytes, count, day, plain, plainLine } from "../core/format.js";
import { filePath } from "../core/http.js";
import { route, setQuery } from "../core/router.js";
import { copy } from "../core/save.js";
import { pieces, textRows } from "../core/text_rows.js";
import { html, signal, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../core/ui.js";
import { folderOf, nameOf, SHOWN_BYTES } from "../state/files.js";
import { Button, Failure, say } from "./basic.js";
import { characterWidth } from "./character_width.js";
import { FixedRows, reveal } from "./fixed_rows.js";
import { colored, highlighted, languageOf } from "./highlight.js";

/** The height of a line in px, as in the style sheet. */
const LINE = 20;
/** Longer texts, in characters, are shown without syntax highlighting. */
const LONGEST_HIGHLIGHTED = 200_000;
/** Unwrapped lines are still broken after this many columns, so that a line of a megabyte can be drawn. */
const UNWRAPPED = 1_000;
const FEWEST = 20;
/** The width of the line numbers, in characters. */
const NUMBERS = 8;

const wraps = signal(true);

/** The open file: its header and its content. */
export function FileView({ files, sessionId, modifiedAt }) {
  const { path, loading, problem, text, size } = files.file.value;
  return html`<section class="file-view" aria-label="File">
    <header>
      <h2>
        <span class="dim">${folderOf(path) && `${plainLine(folderOf(path))}/`}</span>${plainLine(nameOf(path))}
      </h2>
      <p class="dim">${[size !== null && bytes(size), modifiedAt && day(modifiedAt)].filter(Boolean).join(" · ")}</p>
      <div class="file-buttons">
        <a class="button" href=${filePath(sessionId, path)} download=${nameOf(path)}>Download</a>
        ${text && html`<${Button} onClick=${() => copy(text).then(() => say("Copied."))}>Copy<//>`}
        ${text &&
        html`<button type="button" aria-pressed=${wraps.value} onClick=${() => (wraps.value = !wraps.value)}>
          Wrap lines
        </button>`}
        <button type="button" onClick=${() => files.hide()}>Close</button>
      </div>
    </header>
    ${problem && html`<${Failure} problem=${problem} onRetry=${() => files.show(path)} />`}
    ${loading && html`<p class="dim" aria-busy="true">Loading…</p>`}
    ${!loading && !problem && html`<${Content} path=${path} text=${text} size=${size} />`}
  </section>`;
}

function Content({ path, text, size }) {
  if (text === null) {
    return html`<p class="file-notice">This file is not UTF-8 text, so it can't be shown. You can download it.</p>`;
  }
  if (size === 0) return html`<p class="file-notice">The file is empty.</p>`;
  return html`${size > SHOWN_BYTES &&
    html`<p class="file-notice">
      Showing the first ${bytes(SHOWN_BYTES)} of ${bytes(size)}. Download the file to see the rest.
    </p>`}
    <${Text} key=${path} path=${path} text=${text} />`;
}

function Text({ path, text: raw }) {
  const [fitting, setFitting] = useState(80);
  const text = useMemo(() => plain(raw), [raw]);
  const columns = wraps.value ? fitting : UNWRAPPED;
  const rows = useMemo(() => textRows(text, columns), [text, columns]);
  const tokens = useTokens(path, text);
  const fit = (width) => setFitting(Math.max(FEWEST, Math.floor(width / characterWidth()) - NUMBERS));
  const box = useRef(null);
  const linked = Number(route.value.query.line);
  useLayoutEffect(() => {
    const index = linked ? rows.lines.indexOf(linked) : -1;
    if (index >= 0) reveal(box.current, index, LINE);
  }, [rows, linked]);
  const row = (index) => html`<div key=${index} class="line ${linked && rows.lines[index] === linked ? "linked" : ""}">
    <span class="line-number" aria-hidden="true" onClick=${() => setQuery({ line: rows.lines[index] })}>
      ${rows.lines[index] || ""}
    </span>
    <code>${pieces(text, rows.starts[index], rows.ends[index], tokens).map(colored)}</code>
  </div>`;
  return html`<${FixedRows}
    class="file-lines"
    box=${box}
    tabindex="0"
    role="region"
    aria-label=${`${plainLine(nameOf(path))}, ${count(rows.lines.findLast((line) => line > 0))} lines`}
    count=${rows.lines.length}
    height=${LINE}
    row=${row}
    onWidth=${fit}
  />`;
}

/** The colored ranges of a text; empty until they are found, or if that takes too long. */
function useTokens(path, text) {
  const [found, setFound] = useState({ text: null, tokens: [] });
  useEffect(() => {
    const language = languageOf(path);
    if (!language || text.length > LONGEST_HIGHLIGHTED) return undefined;
    let isWanted = true;
    highlighted(text, language).then((tokens) => isWanted && tokens && setFound({ text, tokens }));
    return () => {
      isWanted = false;
    };
  }, [path, text]);
  return found.text === text ? found.tokens : [];
}
