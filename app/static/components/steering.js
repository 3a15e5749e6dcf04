/** The bottom of a conversation: what waits for a decision, what waits to be delivered, how the run stands, and the box
 * to write in. */

import { Approvals } from "./approvals.js";
import { Button, now } from "./basic.js";
import { Composer } from "./composer.js";
import { Queue } from "./queue.js";
import { RunEnd } from "./run_end.js";
import { count, duration, plainLine } from "../core/format.js";
import { post, sessionPath } from "../core/http.js";
import { html, useLayoutEffect, useRef, useState } from "../core/ui.js";

/** Everything by which a session is steered. */
export function Steering({ state }) {
  const session = state.session.value;
  const section = useRef(null);
  useKeptFocus(section);
  if (!session) return null;
  return html`<section class="steering" aria-label="Steer this session" tabindex="-1" ref=${section}>
    <div class="steering-scroll">
      <${Approvals} state=${state} />
      <${Queue} state=${state} />
      ${session.status === "idle"
        ? html`<${RunEnd} state=${state} session=${session} />`
        : html`<${Working} key=${state.runs.value} state=${state} session=${session} />`}
    </div>
    <${Composer} state=${state} />
  </section>`;
}

/** When a run is cancelled or goes on, the button that did it gives way to others: then the section has the focus, so
 * that whoever works by keyboard does not begin again at the top of the page. */
function useKeptFocus(section) {
  // Asked while the page is still as it was.
  const hadFocus = section.current?.querySelector(".working, .run-end")?.contains(document.activeElement);
  useLayoutEffect(() => {
    if (hadFocus && document.activeElement === document.body) section.current.focus({ preventScroll: true });
  });
}

/** That a run is under way, and the way to end it; one for each run, so that the next one can be cancelled again. */
function Working({ state, session }) {
  const [cancelling, setCancelling] = useState(false);
  const [clearQueue, setClearQueue] = useState(false);
  const pending = state.queue.value.length;
  const isOffline = state.follower.value?.state.value === "offline";
  const said = cancelling ? "Cancelling …" : doing(session);
  async function cancel() {
    if (cancelling) return;
    await post(sessionPath(state.id, "cancel"), { clear_queue: clearQueue && pending > 0 });
    setCancelling(true);
  }
  return html`<div class="working">
    <p role="status"><span class="pulse" aria-hidden="true"></span>${isOffline && "Last heard: "}${said}</p>
    <${Retrying} state=${state} />
    ${pending > 0 &&
    html`<label class="check">
      <input type="checkbox" checked=${clearQueue} onChange=${(event) => setClearQueue(event.target.checked)} />
      Clear the queue too (${pending})
    </label>`}
    <${Button} kind="danger" ...${cancelling && { "aria-disabled": "true" }} onClick=${cancel}>Cancel the run<//>
  </div>`;
}

function doing({ status, steps, compaction }) {
  if (status === "awaiting_approval") return "Waits for your decision.";
  if (compaction.in_progress) return "Compacting the context.";
  return steps ? `Working, ${count(steps)} ${steps === 1 ? "step" : "steps"} done.` : "Working.";
}

/** That the provider failed and is asked again in a while. */
function Retrying({ state }) {
  const retrying = state.retrying.value;
  if (!retrying) return null;
  const left = Math.max(0, retrying.until - now.value);
  return html`<p class="retrying dim">
    Attempt ${retrying.attempt} failed: ${plainLine(retrying.detail)}
    ${left > 0 ? ` It is tried again in ${duration(Math.ceil(left / 1000) * 1000)}.` : " It is tried again now."}
  </p>`;
}
