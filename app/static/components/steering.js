/** The bottom of a conversation: approvals, client calls, pending messages, the run's status, and the message box. */

import { Approvals } from "./approvals.js";
import { Button } from "./basic.js";
import { ClientCalls } from "./client_calls.js";
import { Composer } from "./composer.js";
import { Queue } from "./queue.js";
import { CompactionRetrying, Retrying } from "./retrying.js";
import { RunEnd } from "./run_end.js";
import { count } from "../core/format.js";
import { post, sessionPath } from "../core/http.js";
import { sessionLink } from "../core/router.js";
import { html, useLayoutEffect, useRef, useState } from "../core/ui.js";

/** All controls that steer a session. */
export function Steering({ state }) {
  const session = state.session.value;
  const section = useRef(null);
  useKeptFocus(section);
  if (!session) return null;
  return html`<section class="steering" aria-label="Steer this session" tabindex="-1" ref=${section}>
    <div class="steering-scroll">
      <${Approvals} state=${state} />
      <${ClientCalls} state=${state} />
      <${Queue} state=${state} />
      <${Retrying} retrying=${state.retrying.value} />
      ${[...state.working.value.values()].map(
        ({ round, background, retrying }) =>
          !background && html`<${CompactionRetrying} key=${round} retrying=${retrying} />`,
      )}
      ${session.status === "idle" && html`<${RunEnd} state=${state} session=${session} />`}
    </div>
    <${session.kind === "subagent" ? OfParent : Composer} state=${state}>
      ${session.status !== "idle" && html`<${Working} key=${state.runs.value} state=${state} session=${session} />`}
    <//>
  </section>`;
}

/** In place of the message box of a sub-agent. */
function OfParent({ state, children }) {
  return html`<div class="composer">
    <p>
      A sub-agent gets its task from <a href=${sessionLink(state.session.value.parent_id)}>its session</a>, and takes no
      messages.
    </p>
    ${children}
  </div>`;
}

/** When a run is cancelled or resumed, the button that did it is replaced: the section then gets the focus, so that
 * keyboard users do not start again at the top of the page. */
function useKeptFocus(section) {
  // Read before the page is updated.
  const hadFocus = section.current?.querySelector(".working, .run-end")?.contains(document.activeElement);
  useLayoutEffect(() => {
    if (hadFocus && document.activeElement === document.body) section.current.focus({ preventScroll: true });
  });
}

/** The status of the active run and its cancel button; one instance per run, so that the next one can be cancelled too.
 * */
function Working({ state, session }) {
  const [cancelling, setCancelling] = useState(false);
  const [clearQueue, setClearQueue] = useState(false);
  const pending = state.queue.value.length;
  const isOffline = state.follower.value?.state.value === "offline";
  const activity = cancelling ? "Cancelling…" : activityOf(session);
  async function cancel() {
    if (cancelling) return;
    await post(sessionPath(state.id, "cancel"), { clear_queue: clearQueue && pending > 0 });
    setCancelling(true);
  }
  return html`<div class="working">
    <p role="status"><span class="pulse" aria-hidden="true"></span>${isOffline && "Last known: "}${activity}</p>
    ${pending > 0 &&
    html`<label class="check">
      <input type="checkbox" checked=${clearQueue} onChange=${(event) => setClearQueue(event.target.checked)} />
      Clear queue (${pending})
    </label>`}
    <${Button} kind="danger" ...${cancelling && { "aria-disabled": "true" }} onClick=${cancel}>Cancel run<//>
  </div>`;
}

function activityOf({ status, steps, compaction }) {
  if (status === "awaiting_approval") return "Waiting for you";
  if (status === "awaiting_client") return "Waiting for a client";
  if (compaction.in_progress) return "Compacting the context";
  return steps ? `Working, ${count(steps)} ${steps === 1 ? "step" : "steps"} done` : "Working";
}
