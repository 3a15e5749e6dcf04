/** The message box of a session. */

import { AttachButton, Attached, onPasteInto, useFileDrop } from "./attachments.js";
import { useAutoGrow } from "./autogrow.js";
import { now } from "./basic.js";
import { modeHint, MODES } from "./modes.js";
import { count, duration } from "../core/format.js";
import { html, useId, useRef } from "../core/ui.js";
import { draftOf } from "../state/message_draft.js";

/** The server's maximum message length, in characters. */
const LONGEST = 1_000_000;
/** Touch keyboards have no Shift+Enter, so there Enter inserts a line break. */
const isTouch = matchMedia("(pointer: coarse)");

/** The message box: text, images, mode and Send. They stay until the server has accepted them. `children` are the
 * controls of the active run. */
export function Composer({ state, children }) {
  const draft = draftOf(state);
  const text = draft.text.value;
  const { attachments } = draft;
  const isEmpty = !text.trim() && attachments.items.value.length === 0;
  const area = useRef(null);
  useAutoGrow(area, text);
  const ids = useId();
  const { isOver, ...dropping } = useFileDrop(({ dataTransfer }) => attachments.add([...dataTransfer.files]));
  const send = async () => {
    await draft.send();
    area.current?.focus();
  };
  const onKeyDown = (event) => {
    if (event.key !== "Enter" || event.isComposing || event.keyCode === 229 || event.shiftKey || event.altKey) return;
    if (isTouch.matches && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    send();
  };
  const sending = draft.sending.value;
  const tooLong = text.length > LONGEST;
  const hint = tooLong
    ? `A message can have at most ${count(LONGEST)} characters; this one has ${count(text.length)}.`
    : modeHint(draft.mode.value, state.session.value);
  const onSubmit = (event) => {
    event.preventDefault();
    send();
  };
  return html`<form
    class="composer ${isOver ? "drop-target" : ""}"
    aria-label="Send a message"
    onSubmit=${onSubmit}
    ...${dropping}
  >
    <${SendFailure} draft=${draft} />
    <label class="hidden" for="${ids}-text">Message</label>
    <textarea
      ref=${area}
      id="${ids}-text"
      rows="1"
      placeholder=${`Message the agent${isTouch.matches ? "" : " · Shift+Enter: new line"}`}
      value=${text}
      aria-describedby="${ids}-hint"
      enterkeyhint=${isTouch.matches ? "enter" : "send"}
      onInput=${(event) => draft.write(event.target.value)}
      onKeyDown=${onKeyDown}
      onPaste=${onPasteInto(attachments)}
    ></textarea>
    <${Attached} attachments=${attachments} />
    <div class="composer-foot">
      ${state.session.value.status !== "idle" && html`<${ModeChooser} draft=${draft} name="${ids}-mode" />`}
      <p class="dim" id="${ids}-hint" title=${hint}>${hint}</p>
      ${children}
      <${AttachButton} attachments=${attachments} isBrief=${true} />
      <button type="submit" class="primary" disabled=${sending || tooLong || isEmpty} aria-busy=${sending}>
        ${sending ? "Sending…" : "Send"}
      </button>
    </div>
  </form>`;
}

function ModeChooser({ draft, name }) {
  return html`<fieldset class="segments">
    <legend class="hidden">How the message is delivered</legend>
    ${Object.entries(MODES).map(
      ([mode, label]) => html`<label key=${mode}>
        <input
          type="radio"
          name=${name}
          value=${mode}
          checked=${draft.mode.value === mode}
          onChange=${() => draft.choose(mode)}
        />
        <span>${label}</span>
      </label>`,
    )}
  </fieldset>`;
}

/** Why a message was not sent, and when to retry. Screen readers do not announce the countdown every second. */
function SendFailure({ draft }) {
  const failure = draft.failure.value;
  if (!failure) return null;
  const { problem, at } = failure;
  const { retryAfterS } = problem;
  return html`<div class="send-failure">
    <p role="alert">Not sent; your message is kept: ${problem.message}</p>
    ${problem.status === 0 && html`<p>Safe to resend; it won't be duplicated</p>`}
    ${retryAfterS != null && html`<p role="timer">${tryAgain(at + retryAfterS * 1000 - now.value)}</p>`}
  </div>`;
}

function tryAgain(ms) {
  return ms > 0 ? `Try again in ${duration(Math.ceil(ms / 1000) * 1000)}` : "You can try again now";
}
