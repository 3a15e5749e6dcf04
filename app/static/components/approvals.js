/** Calls that need approval: the full arguments, the time left, and the decision. */

import { Button, now, say, sayProblem } from "./basic.js";
import { CallArguments } from "./call_arguments.js";
import { toolName } from "./tool_labels.js";
import { duration } from "../core/format.js";
import { call, get, patch, sessionPath } from "../core/http.js";
import { html, useEffect, useId, useRef, useState } from "../core/ui.js";

/** After a decision the next call takes the place of the first: a click within this time (ms) was meant for the first.
 * */
const STRAY_CLICK_MS = 500;
/** The countdown is highlighted when less than this is left (ms). */
const SOON_MS = 30_000;
/** HTTP status for a call that has already been decided. */
const DECIDED = 409;
/** The server's maximum length of a reason, in characters. */
const LONGEST_REASON = 4_000;

/** All calls that wait for approval, each with its buttons. */
export function Approvals({ state, policy = state.session?.value?.approval.policy }) {
  const waiting = state.approvals.value;
  const section = useRef(null);
  const { changedAt, decidedHere } = useChange(waiting, section);
  const post = async (callId, answer) => {
    // The event may arrive before the response.
    decidedHere.add(callId);
    try {
      await call("POST", sessionPath(state.id, "approvals", callId), { body: answer });
    } catch (problem) {
      if (problem.status === DECIDED) forget(state, callId);
      else decidedHere.delete(callId);
      throw problem;
    }
    forget(state, callId);
  };
  const isStray = () => {
    const isSoon = performance.now() - changedAt.current < STRAY_CLICK_MS;
    if (isSoon) say("Click ignored: the pending calls had just changed. Check them again.");
    return isSoon;
  };
  const decide = async (callId, decision, reason) => {
    if (!isStray()) await post(callId, { decision, ...(reason ? { reason } : {}) });
  };
  const allow = async (callId, name) => {
    if (isStray()) return;
    await patch(sessionPath(state.id), { approval: await approvalWithout(state.id, name) });
    await post(callId, { decision: "approve" });
  };
  const all = async (decision) => {
    if (!isStray()) await decideAll(waiting, (callId) => post(callId, { decision }));
  };
  return html`<p class="hidden" role="status">${announcement(waiting)}</p>
    <section class="approvals" aria-label="Approvals" ref=${section} hidden=${waiting.length === 0}>
      ${waiting.length > 1 &&
      html`<div class="approvals-all">
        <p>${waiting.length} calls are waiting. None starts until all are decided.</p>
        <${Button} onClick=${() => all("approve")}>Approve all<//>
        <${Button} kind="danger" onClick=${() => all("deny")}>Deny all<//>
      </div>`}
      ${waiting.map(
        (approval, place) => html`<${Approval}
          key=${approval.call_id}
          approval=${approval}
          place=${waiting.length > 1 ? `${place + 1} of ${waiting.length}` : ""}
          decide=${decide}
          allow=${mayAllow(policy, approval) ? allow : null}
        />`,
      )}
      ${policy === "always" &&
      html`<p class="approvals-note dim">
        Every tool call of this session needs approval. To approve only some, change its settings.
      </p>`}
    </section>`;
}

/** Whether the session can be changed to run further calls of a tool: if the call waits for the name of its tool. Where
 * all calls wait, it cannot: the API's policies name the tools that wait, so tools that the session gets later would
 * run. A sub-agent keeps the policy that it was started with. */
const mayAllow = (policy, { name, subagent_id: subagentId }) => !subagentId && isInPolicy(policy, name);

const isInPolicy = (policy, name) => typeof policy === "object" && policy.tools.includes(name);

/** The session's approval, without a tool. */
async function approvalWithout(id, name) {
  const { policy, timeout_s } = (await get(sessionPath(id))).approval;
  // Changed elsewhere meanwhile.
  if (!isInPolicy(policy, name)) return { policy, timeout_s };
  const tools = policy.tools.filter((tool) => tool !== name);
  const isAny = tools.length > 0 || policy.commands.length > 0;
  return { policy: isAny ? { ...policy, tools } : "never", timeout_s };
}

/** Removes a decided call, without waiting for its event. */
function forget(state, callId) {
  state.approvals.value = state.approvals.value.filter(({ call_id: id }) => id !== callId);
}

/** Decides the calls one after another. Calls that were decided elsewhere or timed out are skipped. */
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
  if (decided) say(`${decided} of ${waiting.length} calls had already been decided.`);
}

const announcement = (waiting) =>
  waiting.length ? `Waiting for approval: ${waiting.map(({ name }) => toolName(name)).join(", ")}.` : "";

/** When the pending calls last changed, and the ids of those decided on this page: when one of these goes, the focus
 * moves from it to the next call, or to the message box. */
export function useChange(waiting, section) {
  const ids = waiting.map(({ call_id: id }) => id);
  const changedAt = useRef(-Infinity);
  const { current: decidedHere } = useRef(new Set());
  const before = useRef([]);
  useEffect(() => {
    // Before the first call there was nothing else that a click could have been meant for.
    if (before.current.length > 0) changedAt.current = performance.now();
    const gone = before.current.filter((id) => !ids.includes(id));
    before.current = ids;
    const isDecidedHere = gone.filter((id) => decidedHere.delete(id)).length > 0;
    if (!isDecidedHere || document.activeElement !== document.body) return;
    const next = section.current.querySelector("h2") ?? document.querySelector(".composer textarea");
    next?.focus();
  }, [ids.join()]);
  return { changedAt, decidedHere };
}

function Approval({ approval, place, decide, allow }) {
  const { call_id: callId, name, arguments: args, expires_at: expiresAt } = approval;
  const id = useId();
  const [hasReason, setHasReason] = useState(false);
  const [reason, setReason] = useState("");
  const deny = () => decide(callId, "deny", reason.trim());
  return html`<article class="approval" aria-labelledby=${id} data-call-id=${callId}>
    <header>
      <h2 id=${id} tabindex="-1">Run <code>${toolName(name)}</code>?</h2>
      ${place && html`<span class="dim">${place}</span>`}
      ${expiresAt && html`<${Countdown} until=${Date.parse(expiresAt)} />`}
    </header>
    <${CallArguments} name=${name} args=${args} />
    ${hasReason && html`<${Reason} value=${reason} onInput=${setReason} onEnter=${deny} />`}
    <footer>
      <${Button} kind="primary" data-decision="approve" onClick=${() => decide(callId, "approve")}>Approve<//>
      <${Button} kind="danger" data-decision="deny" onClick=${deny}>${reason.trim() ? "Deny with reason" : "Deny"}<//>
      ${allow &&
      html`<${Button}
        title="Approves this call, and lets later calls of ${toolName(name)} in this session run without approval"
        onClick=${() => allow(callId, name)}
      >
        Allow ${toolName(name)} for this session
      <//>`}
      <button type="button" class="plain" aria-expanded=${hasReason} onClick=${() => setHasReason(!hasReason)}>
        ${hasReason ? "Remove reason" : "Add reason"}
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
    <label for=${id}>Reason for the denial (shown to the model)</label>
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

/** The time left, by the server's clock, until what `verb` says; `end` is said then. */
export function Countdown({ until, verb = "auto-deny", end = "timed out: denied" }) {
  const left = until - now.value;
  if (left <= 0) return html`<span class="countdown badge bad">${end}</span>`;
  const text = `${verb} in ${duration(Math.ceil(left / 1000) * 1000)}`;
  return html`<span role="timer" class="countdown badge ${left < SOON_MS ? "bad" : "waiting"}">${text}</span>`;
}
