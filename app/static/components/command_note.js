/** A background command, as a quiet line of the transcript: while it runs, with the end of its output and a button that
 * stops it. */

import { Button, exactly } from "./basic.js";
import { Tail } from "./output.js";
import { WholeOutputContext } from "./output_viewer.js";
import { usePolled } from "./polled.js";
import { clock, plainLine } from "../core/format.js";
import { get, remove, sessionPath } from "../core/http.js";
import { html, useContext } from "../core/ui.js";

/** How much of the end of the output is requested, in bytes. */
const TAIL_BYTES = 8_000;
/** Characters of the command that are shown; its call has all of it. */
const COMMAND = 200;

export function CommandNote({ state, note: { at, command_id: id, command, end } }) {
  const path = sessionPath(state.id, "commands", id);
  const from = (bytes) => get(`${path}/output?since=${Math.max(0, bytes - TAIL_BYTES)}`);
  // The first answer says how much there is.
  const tail = async (before) => from((before ?? (await from(Number.MAX_SAFE_INTEGER))).bytes);
  const seen = usePolled(tail, end === null, ({ status }) => status !== "running").value;
  // Its end may be in a part of the log that is not loaded.
  const now = end ?? seen ?? { status: "running" };
  const isRunning = now.status === "running";
  return html`<p class=${isBad(now) ? "failed" : undefined}>
      Background command <code>${plainLine(command.slice(0, COMMAND))}</code>: ${wordsOf(now)}${" "}
      ${!isRunning && now.bytes > 0 && html`<${OutputLink} sessionId=${state.id} callId=${id} /> `}
      <time class="numbers" ...${exactly(at)}>${clock(at)}</time>
      ${isRunning &&
      html` <${Button} onClick=${() => remove(path)} aria-label=${`Stop ${plainLine(command.slice(0, COMMAND))}`}>
        Stop
      <//>`}
    </p>
    ${isRunning && seen && html`<${Tail} label="Live output" output=${seen.output} />`}`;
}

function OutputLink({ sessionId, callId }) {
  const shown = useContext(WholeOutputContext);
  const path = sessionPath(sessionId, "tool-calls", callId, "output");
  return html`<button type="button" class="link" onClick=${() => (shown.value = path)}>Output</button>`;
}

const WORDS = {
  running: "running",
  stopped: "stopped",
  cancelled: "cancelled with its run",
  limit: "stopped at a limit",
  sandbox_stopped: "stopped with its sandbox",
  interrupted: "interrupted by a server restart",
  failed: "could not be started",
};

function wordsOf({ status, exit_code: code, remark }) {
  const words = status === "exited" ? `ended with exit code ${code}` : WORDS[status];
  return remark ? `${words} (${plainLine(remark)})` : words;
}

const isBad = ({ status, exit_code: code }) =>
  status === "exited" ? code !== 0 : ["limit", "interrupted", "failed"].includes(status);
