/** Calls that wait for a person: what would be done, in full, how long it waits, and the decision. */

import { Button, now, say, sayProblem } from "./basic.js";
import { CallArguments } from "./call_arguments.js";
import { duration, plainLine } from "../core/format.js";
import { call, sessionPath } from "../core/http.js";
import { html, useEffect, useId, useRef, useState } from "../core/ui.js";

/** After a call is decided the next one takes its place: a click this soon after, in ms, was meant for the first. */
const STRAY_CLICK_MS = 500;
/** From here on, in ms, the countdown is marked. */
const SOON_MS = 30_000;
/** The status of an answer which says that the call waits no more. */
const DECIDED = 409;
/** Longest reason that the server takes, in characters. */
const LONGEST_REASON = 4_000;

/** All calls that wait, with a decision for each. */
export function Approvals({ state }) {
  const waiting = state.approvals.value;
  const section = useRef(null);
  const { changedAt, decidedHere } = useChange(waiting, section);
  const post = async (callId, answer) => {
    // The event may be here before the answer.
    decidedHere.add(callId);
    try {
      await call("POST", sessionPath(state.id, "approvals", callId), { body: answer });
    } catch (problem) {
      if (problem.status !== DECIDED) decidedHere.delete(callId);
      throw problem;
    }
  };
  const isStray = () => {
    const isSoon = performance.now() - changedAt.current < STRAY_CLICK_MS;
    if (isSoon) say("Not decided: what waits had changed just before. Look again.");
    return isSoon;
  };
  const decide = async (callId, decision, reason) => {
    if (!isStray()) await post(callId, { decision, ...(reason ? { reason } : {}) });
  };
  const all = async (decision) => {
    if (!isStray()) await decideAll(waiting, (callId) => post(callId, { decision }));
  };
  return html`<p class="hidden" role="status">${announcement(waiting)}</p>
    <section class="approvals" aria-label="Approvals" ref=${section} hidden=${waiting.length === 0}>
      ${waiting.length > 1 &&
      html`<div class="approvals-all">
        <p>${waiting.length} calls wait. None of them starts before all are decided.</p>
        <${Button} onClick=${() => all("approve")}>Approve all<//>
        <${Button} kind="danger" onClick=${() => all("deny")}>Deny all<//>
      </div>`}
      ${waiting.map(
        (approval, place) => html`<${Approval}
          key=${approval.call_id}
          approval=${approval}
          place=${waiting.length > 1 ? `${place + 1} of ${waiting.length}` : ""}
          decide=${decide}
        />`,
      )}
    </section>`;
}

/** Decides one call after the other. One that was decided elsewhere, or whose time is over, does not keep the rest. */
async function decideAll(waiting, decide) {
  let decided = 0;
  for (const { call_id: callId } of waiting) {
    try {
      await decide(callId);
    } catch (problem) {
      if (problem.status !== DECIDED) throw problem;
      decided += 1;
    }
  }
  if (decided) say(`${decided} of ${waiting.length} calls had been decided already.`);
}

const announcement = (waiting) =>
  waiting.length ? `Waiting for approval: ${waiting.map(({ name }) => plainLine(name)).join(", ")}.` : "";

/** When the calls that wait were last other ones, and the ids of those that are decided here: once one of these is
 * gone, the focus, which was on it, goes to the next call, or to the box. */
function useChange(waiting, section) {
  const ids = waiting.map(({ call_id: id }) => id);
  const changedAt = useRef(-Infinity);
  const { current: decidedHere } = useRef(new Set());
  const before = useRef([]);
  useEffect(() => {
    // A first call that comes has nothing before it that a click could have been meant for.
    if (before.current.length > 0) changedAt.current = performance.now();
    const gone = before.current.filter((id) => !ids.includes(id));
    before.current = ids;
    const isOurs = gone.filter((id) => decidedHere.delete(id)).length > 0;
    if (!isOurs || document.activeElement !== document.body) return;
    const next = section.current.querySelector("h2") ?? document.querySelector(".composer textarea");
    next.focus();
  }, [ids.join()]);
  return { changedAt, decidedHere };
}

function Approval({ approval, place, decide }) {
  const { call_id: callId, name, arguments: args, expires_at: expiresAt } = approval;
  const id = useId();
  const [hasReason, setHasReason] = useState(false);
  const [reason, setReason] = useState("");
  const deny = () => decide(callId, "deny", reason.trim());
  return html`<article class="approval" aria-labelledby=${id} data-call-id=${callId}>
    <header>
      <h2 id=${id} tabindex="-1">Run <code>${plainLine(name)}</code>?</h2>
      ${place && html`<span class="dim">${place}</span>`}
      ${expiresAt && html`<${Countdown} until=${Date.parse(expiresAt)} />`}
    </header>
    <${CallArguments} name=${name} args=${args} />
    ${hasReason && html`<${Reason} value=${reason} onInput=${setReason} onEnter=${deny} />`}
    <footer>
      <${Button} kind="primary" onClick=${() => decide(callId, "approve")}>Approve<//>
      <${Button} kind="danger" onClick=${deny}>${reason.trim() ? "Deny with this reason" : "Deny"}<//>
      <button type="button" class="plain" aria-expanded=${hasReason} onClick=${() => setHasReason(!hasReason)}>
        ${hasReason ? "No reason" : "Give a reason"}
      </button>
    </footer>
  </article>`;
}

function Reason({ value, onInput, onEnter }) {
  const id = useId();
  const input = useRef(null);
  useEffect(() => {
    input.current.focus();
    return () => onInput("");
  }, []);
  const onKeyDown = (event) => {
    if (event.key === "Enter" && !event.isComposing) onEnter().catch(sayProblem);
  };
  return html`<div class="field">
    <label for=${id}>Reason of the denial, which the model is told</label>
    <input
      ref=${input}
      id=${id}
      maxlength=${LONGEST_REASON}
      value=${value}
      onInput=${(event) => onInput(event.target.value)}
      onKeyDown=${onKeyDown}
    />
  </div>`;
}

/** How long the call waits still, by the server's clock. */
function Countdown({ until }) {
  const left = until - now.value;
  if (left <= 0) return html`<span class="countdown badge bad">time is over: denied</span>`;
  const text = `denied in ${duration(Math.ceil(left / 1000) * 1000)}`;
  return html`<span role="timer" class="countdown badge ${left < SOON_MS ? "bad" : "waiting"}">${text}</span>`;
}
