/** A call's output: live, as the model saw it, and in full. */

import { Button, Dialog } from "./basic.js";
import { MessageImages } from "./images.js";
import { inBlocks, LongText } from "./long_text.js";
import { bytes, count, day, plain } from "../core/format.js";
import { request, sessionPath } from "../core/http.js";
import { createContext, html, useContext, useEffect, useMemo, useState } from "../core/ui.js";

/** Bytes of a full output loaded per request. */
const PIECE = 256 * 1024;
/** Maximum lines and characters of live output in a row. */
const LIVE_LINES = 6;
const LIVE_CHARS = 1_500;
/** The next piece is loaded when less than this is left below (px). */
const NEAR_END = 600;

/** The last lines of a running call's output. */
export function LiveOutput({ state, callId }) {
  const text = state.transcript.preview(callId).value;
  if (text === "") return null;
  // Takes more than is shown, since terminal codes are removed.
  const lines = plain(text.slice(-4 * LIVE_CHARS)).slice(-LIVE_CHARS).trimEnd().split("\n").slice(-LIVE_LINES);
  return html`<pre class="live-output" aria-label="Live output">${lines.join("\n")}</pre>`;
}

/** A signal of the path of the full output that is shown, or null. It is shown outside the list, since the row that it
 * was opened from may scroll out of view. */
export const WholeOutputContext = createContext(null);

/** A call's result as the model got it, and a button for the full output. */
export function Output({ state, result }) {
  const shown = useContext(WholeOutputContext);
  const path = sessionPath(state.id, "tool-calls", result.call_id, "output");
  return html`<div class="output">
    ${result.compacted_at && html`<${Pruned} result=${result} />`}
    ${result.output === ""
      ? html`<p class="dim">No output.</p>`
      : html`<${LongText} label="Output" text=${plain(result.output)} />`}
    <${MessageImages} sessionId=${state.id} parts=${result.images ?? []} />
    ${result.bytes > 0 &&
    html`<p class="output-ways">
      ${result.truncated && html`<span class="dim">Truncated.</span> `}
      <button type="button" class="link" onClick=${() => (shown.value = path)}>Full output</button>${" "}
      <a href=${path} download=${`${result.call_id}.txt`}>Download</a> <span class="dim">${bytes(result.bytes)}</span>
    </p>`}
  </div>`;
}

function Pruned({ result }) {
  const tokens = result.original_tokens == null ? "" : ` instead of ${count(result.original_tokens)} tokens`;
  return html`<p class="pruned">
    Cleared from the context on ${day(result.compacted_at)}: the model now sees a placeholder${tokens}.
  </p>`;
}

/** The full output, loaded in pieces on scroll. */
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
  return html`<${Dialog} title="Full output" wide=${true} onClose=${onClose}>
    <pre class="whole-output" tabindex="0" role="region" aria-label="Full output" onScroll=${onScroll}>
      ${pieces.map((piece, place) => html`<${Piece} key=${place} blocks=${piece} />`)}
    </pre>
    <footer>
      <span class="dim">${progressOf(reader, problem)}</span>
      ${!isEnd && html`<${Button} onClick=${tryMore}>Load more<//>`}
      <a class="button" href=${path} download>Download</a>
    </footer>
  <//>`;
}

function progressOf(reader, problem) {
  if (problem) return problem.message;
  if (reader.size === null) return "Loading…";
  return reader.isEnd ? `All ${bytes(reader.size)} loaded` : `${bytes(reader.read)} of ${bytes(reader.size)} loaded`;
}

const Piece = ({ blocks }) => blocks.map((block, place) => html`<div key=${place} class="block">${block}</div>`);

/** Reads an output in pieces, as text. Invalid UTF-8 becomes U+FFFD. */
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

  /** The next piece; null at the end, or while another one is being read. */
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

/** Where to cut a text so that no terminal code, no CRLF and, if possible, no line is split. */
function wholeEnd(text) {
  const line = text.lastIndexOf("\n", text.length - 1) + 1;
  if (line > text.length - 8_192 && line > 0) return line;
  const escape = text.lastIndexOf("\u001b");
  if (escape >= text.length - 64 && escape > 0) return escape;
  return text.endsWith("\r") ? text.length - 1 : text.length;
}
