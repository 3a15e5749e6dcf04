/** What a call has put out: as the model saw it, while it runs, and all of it, by pieces. */

import { Button, Dialog } from "./basic.js";
import { inBlocks, LongText } from "./long_text.js";
import { bytes, count, day, plain } from "../core/format.js";
import { request, sessionPath } from "../core/http.js";
import { createContext, html, useContext, useEffect, useMemo, useState } from "../core/ui.js";

/** Bytes that are loaded together of a whole output. */
const PIECE = 256 * 1024;
/** Lines and characters of live output that a row shows. */
const LIVE_LINES = 6;
const LIVE_CHARS = 1_500;
/** The next piece is loaded when less than this, in px, is left below. */
const NEAR_END = 600;

/** The last lines of a running call's output. */
export function LiveOutput({ state, callId }) {
  const text = state.transcript.preview(callId).value;
  if (text === "") return null;
  // Longer than what is shown, since terminal codes are left out of it.
  const lines = plain(text.slice(-4 * LIVE_CHARS)).slice(-LIVE_CHARS).trimEnd().split("\n").slice(-LIVE_LINES);
  return html`<pre class="live-output" aria-label="Live output">${lines.join("\n")}</pre>`;
}

/** The path of the whole output that is shown, a signal, or null. It is shown beside the list, since the row that it
 * was opened from may scroll out of sight meanwhile. */
export const WholeOutputContext = createContext(null);

/** A call's result in full, as the model got it, and the way to all of its output. */
export function Output({ state, result }) {
  const shown = useContext(WholeOutputContext);
  const path = sessionPath(state.id, "tool-calls", result.call_id, "output");
  return html`<div class="output">
    ${result.compacted_at && html`<${Pruned} result=${result} />`}
    ${result.output === ""
      ? html`<p class="dim">No output.</p>`
      : html`<${LongText} label="Output" text=${plain(result.output)} />`}
    ${result.bytes > 0 &&
    html`<p class="output-ways">
      ${result.truncated && html`<span class="dim">Shown in part.</span> `}
      <button type="button" class="link" onClick=${() => (shown.value = path)}>Whole output</button>${" "}
      <a href=${path} download=${`${result.call_id}.txt`}>Download</a> <span class="dim">${bytes(result.bytes)}</span>
    </p>`}
  </div>`;
}

function Pruned({ result }) {
  const tokens = result.original_tokens == null ? "" : `, in place of ${count(result.original_tokens)} tokens`;
  return html`<p class="pruned">
    Cleared from the context ${day(result.compacted_at)}: the model sees a placeholder now${tokens}.
  </p>`;
}

/** All of an output, loaded by pieces as it is read. */
export function WholeOutput({ path, onClose }) {
  const reader = useMemo(() => new PieceReader(path), [path]);
  const [pieces, setPieces] = useState([]);
  const isEnd = reader.isEnd;
  const more = async () => {
    const text = await reader.next();
    if (text !== null) setPieces((before) => [...before, inBlocks(text)]);
  };
  const [problem, setProblem] = useState(null);
  const tryMore = () => more().then(() => setProblem(null), setProblem);
  useEffect(() => void tryMore(), [reader]);
  const onScroll = ({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
    if (!isEnd && !problem && scrollHeight - scrollTop - clientHeight < NEAR_END) tryMore();
  };
  return html`<${Dialog} title="Whole output" wide=${true} onClose=${onClose}>
    <pre class="whole-output" tabindex="0" role="region" aria-label="Whole output" onScroll=${onScroll}>
      ${pieces.map((piece, place) => html`<${Piece} key=${place} blocks=${piece} />`)}
    </pre>
    <footer>
      <span class="dim">${said(reader, problem)}</span>
      ${!isEnd && html`<${Button} onClick=${tryMore}>Load more<//>`}
      <a class="button" href=${path} download>Download</a>
    </footer>
  <//>`;
}

function said(reader, problem) {
  if (problem) return problem.message;
  if (reader.size === null) return "Loading …";
  return reader.isEnd ? `All of it: ${bytes(reader.size)}.` : `${bytes(reader.read)} of ${bytes(reader.size)}.`;
}

const Piece = ({ blocks }) => blocks.map((block, place) => html`<div key=${place} class="block">${block}</div>`);

/** Reads an output by pieces, as text. Bytes that are no UTF-8 become U+FFFD. */
class PieceReader {
  read = 0;
  size = null;
  #path;
  #decoder = new TextDecoder();
  #held = "";
  #reading = null;

  constructor(path) {
    this.#path = path;
  }

  get isEnd() {
    return this.size !== null && this.read >= this.size;
  }

  /** The next piece; null where there is none, or where it is being read already. */
  async next() {
    if (this.isEnd || this.#reading) return null;
    this.#reading = this.#fetch();
    try {
      return await this.#reading;
    } finally {
      this.#reading = null;
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
    return plain(text.slice(0, end));
  }
}

/** Where a text is to be cut, so that no terminal code, no line break and, if that can be, no line is parted. */
function wholeEnd(text) {
  const line = text.lastIndexOf("\n", text.length - 1) + 1;
  if (line > text.length - 8_192 && line > 0) return line;
  const escape = text.lastIndexOf("\u001b");
  if (escape >= text.length - 64 && escape > 0) return escape;
  return text.endsWith("\r") ? text.length - 1 : text.length;
}
