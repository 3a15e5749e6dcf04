/** Calls of client tools: their arguments, the time left, and a form to post the result. */

import { Button, say } from "./basic.js";
import { Countdown, useChange } from "./approvals.js";
import { CallArguments } from "./call_arguments.js";
import { toolName } from "./tool_labels.js";
import { post, sessionPath } from "../core/http.js";
import { html, signal, useId, useRef } from "../core/ui.js";
import { clientCallEnded } from "../state/client_calls.js";

/** HTTP status for a call that has its result already. */
const RESOLVED = 409;

/** The texts written for calls, by call id: kept while other views are shown. */
const texts = new Map();

function textFor(callId) {
  if (!texts.has(callId)) texts.set(callId, signal(""));
  return texts.get(callId);
}

/** All calls that wait for their result from a client. Usually a program posts it; here a person can. */
export function ClientCalls({ state }) {
  const waiting = state.clientCalls.value;
  const section = useRef(null);
  const { decidedHere } = useChange(waiting, section);
  const resolve = async (callId, result) => {
    // The event may arrive before the response.
    decidedHere.add(callId);
    try {
      await post(sessionPath(state.id, "tool-calls", callId, "result"), result);
    } catch (problem) {
      if (problem.status !== RESOLVED) {
        decidedHere.delete(callId);
        throw problem;
      }
      say("This call already has a result.");
    }
    texts.delete(callId);
    clientCallEnded(state, callId);
  };
  return html`<p class="hidden" role="status">${announcement(waiting)}</p>
    <section class="approvals" aria-label="Calls of client tools" ref=${section} hidden=${waiting.length === 0}>
      ${waiting.map((call) => html`<${ClientCall} key=${call.call_id} call=${call} resolve=${resolve} />`)}
    </section>`;
}

const announcement = (waiting) =>
  waiting.length ? `Waiting for results: ${waiting.map(({ name }) => toolName(name)).join(", ")}.` : "";

function ClientCall({ call, resolve }) {
  const { call_id: callId, name, arguments: args, expires_at: expiresAt } = call;
  const id = useId();
  const text = textFor(callId);
  const isEmpty = !text.value.trim();
  return html`<article class="approval" aria-labelledby=${id} data-call-id=${callId}>
    <header>
      <h2 id=${id} tabindex="-1">Result of <code>${toolName(name)}</code></h2>
      ${expiresAt &&
      html`<${Countdown} until=${Date.parse(expiresAt)} verb="times out" end="timed out" />`}
    </header>
    <p class="dim">A client carries out this call and posts its result. You can post it here instead.</p>
    <${CallArguments} name=${name} args=${args} />
    <div class="field">
      <label for="${id}-text">Result (shown to the model)</label>
      <textarea
        id="${id}-text"
        rows="2"
        value=${text.value}
        onInput=${({ currentTarget }) => (text.value = currentTarget.value)}
      ></textarea>
    </div>
    <footer>
      <${Button} kind="primary" onClick=${() => resolve(callId, { output: text.value })}>Post result<//>
      <${Button} kind="danger" disabled=${isEmpty} onClick=${() => resolve(callId, { error: text.value })}>
        Post as error
      <//>
    </footer>
  </article>`;
}
