/** The original output of a call, loaded on request. */

import { bytes, plain } from "../core/format.js";
import { sessionPath } from "../core/http.js";
import { html, useLayoutEffect, useRef, useSignal } from "../core/ui.js";
import { rawOutput, SHOWN_BYTES } from "../state/seen.js";
import { Button } from "./basic.js";
import { LongText } from "./long_text.js";

/** A button that loads the output, with a link to download it. */
export function OriginalOutput({ sessionId, callId, verb = "Show original output" }) {
  const output = useSignal(null);
  if (output.value === null) {
    const load = async () => (output.value = await rawOutput(sessionId, callId));
    return html`<${Button} onClick=${load}>${verb}<//>`;
  }
  return html`<${Shown} sessionId=${sessionId} callId=${callId} output=${output.value} />`;
}

function Shown({ sessionId, callId, output: { text, isWhole, size } }) {
  const box = useRef(null);
  useLayoutEffect(() => {
    // The button that had the focus has been removed.
    if (document.activeElement === document.body) box.current.focus({ preventScroll: true });
  }, []);
  return html`<div class="cx-original" ref=${box} tabindex="-1">
    <p class="dim">
      Original output, ${bytes(size)}${isWhole ? "" : ` (first ${bytes(SHOWN_BYTES)} shown)`}
      ${" "}<a href=${sessionPath(sessionId, "tool-calls", callId, "output")} download>Download</a>
    </p>
    ${text ? html`<${LongText} label="Original output" text=${plain(text)} />` : html`<p class="dim">Empty.</p>`}
  </div>`;
}
