/** A call's output: its last lines, and as the model saw it. */

import { CopyButton } from "./copy_button.js";
import { MessageImages } from "./images.js";
import { LongText, styled } from "./long_text.js";
import { WholeOutputContext } from "./output_viewer.js";
import { withColors } from "../core/ansi.js";
import { bytes, count, day } from "../core/format.js";
import { sessionPath } from "../core/http.js";
import { pieces } from "../core/text_rows.js";
import { html, useContext, useMemo } from "../core/ui.js";

/** The last lines of an output that are shown in a row, and their characters at most. */
const TAIL_LINES = 10;
const TAIL_CHARS = 1_500;

/** The last lines of a running call's output. */
export function LiveOutput({ state, callId }) {
  return html`<${Tail} label="Live output" output=${state.transcript.preview(callId).value} />`;
}

/** The last lines of an output; nothing without one. */
export function Tail({ label, output }) {
  // Takes more than is shown, since terminal codes are removed.
  const { text, tokens } = useMemo(() => withColors(cutBefore(output, 4 * TAIL_CHARS)), [output]);
  const end = text.trimEnd().length;
  if (end === 0) return null;
  const start = Math.max(end - TAIL_CHARS, lineBefore(text, end, TAIL_LINES));
  return html`<pre class="tail" aria-label=${label}>${pieces(text, start, end, tokens).map(styled)}</pre>`;
}

/** The end of a text, from a line's beginning if possible, so that no terminal code is split. */
function cutBefore(text, length) {
  if (text.length <= length) return text;
  const end = text.slice(-length);
  return end.slice(end.indexOf("\n") + 1);
}

/** Where the last `count` lines before `end` begin. */
function lineBefore(text, end, count) {
  let start = end;
  for (let left = count; left > 0 && start > 0; left -= 1) start = text.lastIndexOf("\n", start - 1);
  return start + (start < 0 || text[start] === "\n" ? 1 : 0);
}

/** A call's result as the model got it, and ways to the full output. */
export function Output({ state, result }) {
  const shown = useContext(WholeOutputContext);
  const path = sessionPath(state.id, "tool-calls", result.call_id, "output");
  const { text, tokens } = useMemo(() => withColors(result.output), [result.output]);
  return html`<div class="output">
    ${result.compacted_at && html`<${Pruned} result=${result} />`}
    ${text === ""
      ? html`<p class="dim">No output.</p>`
      : html`<div class="copyable">
          <${LongText} label="Output" text=${text} tokens=${tokens} /><${CopyButton} text=${text} name="output" />
        </div>`}
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
