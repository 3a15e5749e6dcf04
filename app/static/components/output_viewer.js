/** The full output of a call: its lines with numbers, loaded in pieces on scroll, and a search in them. */

import { withColors } from "../core/ansi.js";
import { bytes, count } from "../core/format.js";
import { request } from "../core/http.js";
import { pieces, textRows } from "../core/text_rows.js";
import { createContext, html, useEffect, useMemo, useRef, useState } from "../core/ui.js";
import { Button, Dialog } from "./basic.js";
import { characterWidth } from "./character_width.js";
import { CopyButton } from "./copy_button.js";
import { FixedRows, reveal } from "./fixed_rows.js";
import { styled } from "./long_text.js";

/** Bytes loaded per request. */
const PIECE = 256 * 1024;
/** Bytes that are shown; the rest is only in the download. */
const MOST = 16 * 1024 * 1024;
/** The next piece is loaded when less than this is left below (px). */
const NEAR_END = 600;
/** The height of a line in px, as in the style sheet. */
const LINE = 20;
/** The width of the line numbers, in characters. */
const NUMBERS = 8;
const FEWEST = 20;
const MOST_MATCHES = 10_000;

/** A signal of the path of the output that is shown, or null. It is shown outside the list, since the row that it was
 * opened from may scroll out of view. */
export const WholeOutputContext = createContext(null);

export function WholeOutput({ path, onClose }) {
  const reader = useMemo(() => new PieceReader(path), [path]);
  const [{ text, tokens }, setContent] = useState({ text: "", tokens: [] });
  const [problem, setProblem] = useState(null);
  const load = async (isAll = false) => {
    try {
      do {
        const piece = await reader.next();
        if (piece) setContent((before) => joined(before, withColors(piece)));
      } while (isAll && !reader.isEnd);
      setProblem(null);
    } catch (failure) {
      setProblem(failure);
    }
  };
  useEffect(() => void load(), [reader]);
  const box = useRef(null);
  const onScroll = ({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
    if (!problem && !reader.isReading && scrollHeight - scrollTop - clientHeight < NEAR_END) load();
  };
  const [columns, setColumns] = useState(80);
  const fit = (width) => setColumns(Math.max(FEWEST, Math.floor(width / characterWidth()) - NUMBERS));
  const rows = useMemo(() => textRows(text, columns), [text, columns]);
  const find = useFind(text, (offset) => reveal(box.current, rowAt(rows, offset), LINE));
  const row = (index) => {
    const [start, end] = [rows.starts[index], rows.ends[index]];
    const found = pieces(text, start, end, find.tokens);
    const isFound = found.some(({ scope }) => scope);
    return html`<div key=${index} class="line">
      <span class="line-number" aria-hidden="true">${rows.lines[index] || ""}</span>
      <code>${(isFound ? found : pieces(text, start, end, tokens)).map(styled)}</code>
    </div>`;
  };
  return html`<${Dialog} title="Full output" wide=${true} onClose=${onClose}>
    <${FindBar} find=${find} onFirst=${() => load(true)} />
    <${FixedRows}
      box=${box}
      class="whole-output"
      tabindex="0"
      role="region"
      aria-label="Full output"
      count=${rows.starts.length}
      height=${LINE}
      row=${row}
      onWidth=${fit}
      onScroll=${onScroll}
    />
    <footer>
      <span class="dim">${progressOf(reader, problem)}</span>
      ${!reader.isEnd && html`<${Button} onClick=${() => load()}>Load more<//>`}
      <${CopyButton} text=${text} name="output" />
      <a class="button" href=${path} download>Download</a>
    </footer>
  <//>`;
}

/** A search in a text: the query, its matches as colored ranges, and the one that is shown. */
function useFind(text, show) {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const matches = useMemo(() => matchesOf(text, query), [text, query]);
  const tokens = useMemo(
    () => matches.map((match, index) => ({ ...match, scope: index === at ? "match current" : "match" })),
    [matches, at],
  );
  const go = (to) => {
    if (matches.length === 0) return;
    const next = (to + matches.length) % matches.length;
    setAt(next);
    show(matches[next].start);
  };
  // The first match is shown when it is found, also if it is loaded only then.
  const first = matches[0]?.start;
  useEffect(() => {
    if (first !== undefined) go(0);
  }, [query, first === undefined]);
  return { query, setQuery, at, matches, tokens, next: () => go(at + 1), previous: () => go(at - 1) };
}

function matchesOf(text, query) {
  if (query === "") return [];
  const pattern = new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
  const found = [];
  for (const { 0: match, index } of text.matchAll(pattern)) {
    if (found.push({ start: index, end: index + match.length }) === MOST_MATCHES) break;
  }
  return found;
}

function FindBar({ find, onFirst }) {
  const { query, at, matches } = find;
  const input = useRef(null);
  useEffect(() => {
    // Most lines are not in the document, so the browser's own search would not find them.
    const onKey = (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.key !== "f") return;
      event.preventDefault();
      input.current.select();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const onInput = ({ target }) => {
    if (query === "") onFirst();
    find.setQuery(target.value);
  };
  const onKeyDown = (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    if (event.shiftKey) find.previous();
    else find.next();
  };
  const most = matches.length === MOST_MATCHES ? "+" : "";
  const status = matches.length ? `${count(at + 1)} of ${count(matches.length)}${most}` : "No matches";
  return html`<div class="find-bar" role="search">
    <input
      ref=${input}
      type="search"
      aria-label="Find in output"
      placeholder="Find"
      value=${query}
      onInput=${onInput}
      onKeyDown=${onKeyDown}
    />
    <span class="dim numbers" role="status">${query && status}</span>
    <button type="button" aria-label="Previous match" disabled=${!matches.length} onClick=${find.previous}>‹</button>
    <button type="button" aria-label="Next match" disabled=${!matches.length} onClick=${find.next}>›</button>
  </div>`;
}

/** The row that shows the character at an offset. */
function rowAt({ starts }, offset) {
  let [low, high] = [0, starts.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (starts[middle] <= offset) low = middle;
    else high = middle;
  }
  return low;
}

function joined(before, { text, tokens }) {
  const moved = (place) => place + before.text.length;
  const added = tokens.map(({ start, end, scope }) => ({ start: moved(start), end: moved(end), scope }));
  return { text: before.text + text, tokens: [...before.tokens, ...added] };
}

function progressOf(reader, problem) {
  if (problem) return problem.message;
  if (reader.size === null) return "Loading…";
  if (reader.read >= reader.size) return `All ${bytes(reader.size)} loaded`;
  const rest = reader.isEnd ? "; download it to see the rest" : "";
  return `${bytes(reader.read)} of ${bytes(reader.size)} loaded${rest}`;
}

/** Reads an output in pieces, as text. Invalid UTF-8 becomes U+FFFD. */
class PieceReader {
  read = 0;
  size = null;
  #path;
  #decoder = new TextDecoder();
  #held = "";
  #last = Promise.resolve();
  isReading = false;

  constructor(path) {
    this.#path = path;
  }

  /** Whether no more is loaded. */
  get isEnd() {
    return this.size !== null && this.read >= Math.min(this.size, MOST);
  }

  /** The next piece, with its terminal codes; "" at the end. Waits for those that were asked for before. */
  next() {
    this.#last = this.#last.catch(() => {}).then(() => this.#read());
    return this.#last;
  }

  async #read() {
    if (this.isEnd) return "";
    this.isReading = true;
    try {
      return await this.#fetch();
    } finally {
      this.isReading = false;
    }
  }

  async #fetch() {
    const headers = { Range: `bytes=${this.read}-${this.read + PIECE - 1}` };
    const response = await request("GET", this.#path, { headers });
    const data = new Uint8Array(await response.arrayBuffer());
    const range = /\/(\d+)$/.exec(response.headers.get("Content-Range") ?? "");
    this.read += data.length;
    this.size = range ? Number(range[1]) : this.read;
    const text = this.#held + this.#decoder.decode(data, { stream: !this.isEnd });
    const end = this.isEnd ? text.length : wholeEnd(text);
    this.#held = text.slice(end);
    return text.slice(0, end);
  }
}

/** Where to cut a text so that no terminal code, no CRLF and, if possible, no line is split. */
function wholeEnd(text) {
  const line = text.lastIndexOf("\n", text.length - 1) + 1;
  if (line > text.length - 8_192 && line > 0) return line;
  const escape = text.lastIndexOf("\u001b");
  if (escape >= text.length - 64 && escape > 0) return escape;
  return text.endsWith("\r") ? text.length - 1 : text.length;
}
