/** The bottom of a conversation: what waits for a decision, what waits to be delivered, how the run stands, and the box
 * to write in. */

import { Approvals } from "./approvals.js";
import { Button, now } from "./basic.js";
import { Composer } from "./composer.js";
import { Queue } from "./queue.js";
import { RunEnd } from "./run_end.js";
import { count, duration } from "../core/format.js";
import { post, sessionPath } from "../core/http.js";
import { html, useEffect, useState } from "../core/ui.js";

/** Everything by which a session is steered. */
export function Steering({ state }) {
  const session = state.session.value;
  if (!session) return null;
  return html`<section class="steering" aria-label="Steer this session">
    <div class="steering-scroll">
      <${Approvals} state=${state} />
      <${Queue} state=${state} />
      ${session.status === "idle"
        ? html`<${RunEnd} state=${state} session=${session} />`
        : html`<${Working} state=${state} session=${session} />`}
    </div>
    <${Composer} state=${state} />
  </section>`;
}

/** That a run is under way, and the way to end it. */
function Working({ state, session }) {
  const [cancelling, setCancelling] = useState(false);
  const [clearQueue, setClearQueue] = useState(false);
  const pending = state.queue.value.length;
  // A new run after this one can be cancelled again.
  useEffect(() => setCancelling(false), [session.status]);
  async function cancel() {
    await post(sessionPath(state.id, "cancel"), { clear_queue: clearQueue && pending > 0 });
    setCancelling(true);
  }
  return html`<div class="working">
    <p role="status"><span class="pulse" aria-hidden="true"></span>${cancelling ? "Cancelling …" : doing(session)}</p>
    <${Retrying} state=${state} />
    ${pending > 0 &&
    html`<label class="check">
      <input type="checkbox" checked=${clearQueue} onChange=${(event) => setClearQueue(event.target.checked)} />
      Clear the queue too (${pending})
    </label>`}
    <${Button} kind="danger" disabled=${cancelling} onClick=${cancel}>Cancel the run<//>
  </div>`;
}

function doing({ status, steps }) {
  if (status === "awaiting_approval") return "Waits for your decision.";
  return steps ? `Working, ${count(steps)} ${steps === 1 ? "step" : "steps"} done.` : "Working.";
}

/** That the provider failed and is asked again in a while. */
function Retrying({ state }) {
  const retrying = state.retrying.value;
  if (!retrying) return null;
  const left = Math.max(0, retrying.until - now.value);
  return html`<p class="retrying dim">
    Attempt ${retrying.attempt} failed: ${retrying.detail}
    ${left > 0 ? ` It is tried again in ${duration(Math.ceil(left / 1000) * 1000)}.` : " It is tried again now."}
  </p>`;
}
