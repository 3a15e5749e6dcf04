/** Pending messages, in delivery order. */

import { useAutoGrow } from "./autogrow.js";
import { Badge, Button, Confirm, say } from "./basic.js";
import { modeHint, modeName, MODES } from "./modes.js";
import { QueuedContent } from "./user_content.js";
import { patch, remove, sessionPath } from "../core/http.js";
import { html, useEffect, useId, useRef, useState } from "../core/ui.js";
import { draftOf } from "../state/message_draft.js";
import { hasMore, mayBecome, textOf, withText } from "../state/queued_content.js";

/** A message delivered sooner than this (ms) is not shown as pending: it would only flash. */
const PASSING_MS = 250;
/** Withdrawing a message longer than this, in characters, or with images or files, needs a confirmation. */
const LONG = 200;

/** The pending messages, each with buttons to edit and withdraw it. */
export function Queue({ state }) {
  const items = useSettled(state.queue.value);
  const [editing, setEditing] = useState(null);
  const edited = useRef(null);
  const heading = useId();
  const section = useRef(null);
  const withdrawing = useWithdrawing(items, section);
  const edit = (item) => setEditing({ ...item, text: textOf(item.content) });
  const close = () => {
    edited.current = editing.id;
    setEditing(null);
  };
  const lost = editing && !items.some(({ id }) => id === editing.id) ? editing : null;
  if (items.length === 0 && !lost) return null;
  return html`<section class="queue" aria-labelledby=${heading} ref=${section}>
    <h2 id=${heading}>Pending messages <span class="dim">${items.length}</span></h2>
    <ol>
      ${items.map((item) =>
        editing?.id === item.id
          ? html`<${Editor} key=${item.id} ...${{ state, item, editing, onChange: setEditing, onClose: close }} />`
          : html`<${Pending}
              key=${item.id}
              ...${{ state, item, edited, withdrawing, onEdit: () => edit(item) }}
            />`,
      )}
    </ol>
    ${lost && html`<${LostEdit} state=${state} text=${lost.text} onClose=${() => setEditing(null)} />`}
    <p class="dim">${order(items, state.session.value)}</p>
  </section>`;
}

/** A ref to the id of the message being withdrawn on this page: when it is gone, and its button with it, the focus
 * moves to the message in its place, or to the message box. */
function useWithdrawing(items, section) {
  const withdrawing = useRef(null);
  const places = useRef([]);
  useEffect(() => {
    const id = withdrawing.current;
    const place = places.current.indexOf(id);
    places.current = items.map((item) => item.id);
    if (id === null || places.current.includes(id)) return;
    withdrawing.current = null;
    if (document.activeElement !== document.body) return;
    const left = section.current?.querySelectorAll(".queue-text") ?? [];
    (left[Math.min(place, left.length - 1)] ?? document.querySelector(".composer textarea"))?.focus();
  });
  return withdrawing;
}

/** The items without those that were just added. */
function useSettled(items) {
  const seen = useRef(new Map());
  const [, redraw] = useState(0);
  const time = performance.now();
  const since = new Map(items.map(({ id }) => [id, seen.current.get(id) ?? time]));
  seen.current = since;
  const isNew = ({ id }) => time - since.get(id) < PASSING_MS;
  const waiting = items.some(isNew);
  useEffect(() => {
    if (!waiting) return undefined;
    const timer = setTimeout(() => redraw(time), PASSING_MS);
    return () => clearTimeout(timer);
  });
  return items.filter((item) => !isNew(item));
}

function order(items, { status, outcome }) {
  const held = status === "idle" && outcome !== "completed";
  const sentences = [];
  if (held) sentences.push("The run has ended", "They'll be sent when you resume");
  if (items.some(({ mode }) => mode === "follow_up")) sentences.push("Follow-ups run last, one at a time");
  return sentences.join(". ");
}

function Pending({ state, item, edited, withdrawing, onEdit }) {
  const [asking, setAsking] = useState(false);
  const edit = useRef(null);
  useEffect(() => {
    if (edited.current !== item.id) return;
    edited.current = null;
    edit.current.focus();
  }, []);
  const withdraw = async () => {
    // The event may arrive before the response.
    withdrawing.current = item.id;
    try {
      await remove(sessionPath(state.id, "queue", item.id));
    } catch (problem) {
      withdrawing.current = null;
      throw problem;
    }
  };
  return html`<li data-message-id=${item.id}>
    <${Badge} kind=${item.mode === "interrupt" ? "warn" : ""}>${modeName(item.mode)}<//>
    <div class="queue-text" tabindex="0" role="group" aria-label="Pending message">
      <${QueuedContent} state=${state} content=${item.content} />
    </div>
    <div class="queue-buttons">
      <button type="button" ref=${edit} onClick=${onEdit}>Edit</button>
      <${Button} onClick=${() => (isLong(item) ? setAsking(true) : withdraw())}>Withdraw<//>
    </div>
    ${asking &&
    html`<${Confirm}
      title="Withdraw this message?"
      text="It won't be delivered, and its content will be lost."
      verb="Withdraw"
      onConfirm=${withdraw}
      onClose=${() => setAsking(false)}
    />`}
  </li>`;
}

const isLong = ({ content }) => hasMore(content) || textOf(content).length > LONG;

function Editor({ state, item, editing, onChange, onClose }) {
  const area = useRef(null);
  const id = useId();
  useAutoGrow(area, editing.text);
  useEffect(() => area.current.focus(), []);
  async function save() {
    const changes = {};
    if (editing.text !== textOf(item.content)) changes.content = await withText(state.id, item.content, editing.text);
    if (editing.mode !== item.mode) changes.mode = editing.mode;
    if (Object.keys(changes).length) await patch(sessionPath(state.id, "queue", item.id), changes);
    onClose();
  }
  const onKeyDown = (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    event.stopPropagation();
    onClose();
  };
  return html`<li class="editing" data-message-id=${item.id} onKeyDown=${onKeyDown}>
    <label class="hidden" for="${id}-text">Edited message</label>
    <textarea
      ref=${area}
      id="${id}-text"
      value=${editing.text}
      onInput=${(event) => onChange({ ...editing, text: event.target.value })}
    ></textarea>
    ${hasMore(item.content) && html`<p class="dim">Images and files stay as they are.</p>`}
    <div class="queue-buttons">
      <label class="hidden" for="${id}-mode">Mode</label>
      <select
        id="${id}-mode"
        value=${editing.mode}
        onChange=${(event) => onChange({ ...editing, mode: event.target.value })}
      >
        ${Object.entries(MODES).map(([mode, label]) => html`<option key=${mode} value=${mode}>${label}</option>`)}
      </select>
      <${Button} kind="primary" disabled=${!mayBecome(item.content, editing.text)} onClick=${save}>Save<//>
      <button type="button" onClick=${onClose}>Cancel</button>
    </div>
    <p class="dim">${modeHint(editing.mode, state.session.value)}</p>
  </li>`;
}

/** Tells the user that a message was delivered or withdrawn while they edited it, and offers to keep their text. */
function LostEdit({ state, text, onClose }) {
  const keep = () => {
    draftOf(state).append(text);
    say("Your text is in the message box.");
    onClose();
  };
  return html`<div class="overtaken" role="alert">
    <p>The message you were editing is no longer pending: it was delivered unchanged or withdrawn.</p>
    <button type="button" onClick=${keep}>Move my text to the message box</button>
    <button type="button" onClick=${onClose}>Discard my text</button>
  </div>`;
}
