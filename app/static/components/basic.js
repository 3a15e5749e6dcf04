/** Basic components shared by all views: async buttons, dialogs, notes, times, badges. */

import { ago, day } from "../core/format.js";
import { serverNow } from "../core/http.js";
import { html, signal, useEffect, useLayoutEffect, useRef, useState } from "../core/ui.js";

/** Temporary notes at the edge of the page: `{id, kind: "error" | "info", text}`. */
const notes = signal([]);
let lastNote = 0;
const NOTE_MS = 8_000;

/** Shows a note for a while; screen readers announce it too. */
export function say(text, kind = "info") {
  const id = ++lastNote;
  notes.value = [...notes.value.slice(-4), { id, kind, text }];
  setTimeout(() => dismiss(id), NOTE_MS);
}

export const sayProblem = (problem) => say(problem.message, "error");

function dismiss(id) {
  notes.value = notes.value.filter((note) => note.id !== id);
}

export function Notes() {
  return html`<div class="notes" role="status" aria-live="polite">
    ${notes.value.map(
      ({ id, kind, text }) => html`<p key=${id} class="note ${kind}">
        <span>${text}</span>
        <button class="plain" aria-label="Dismiss" onClick=${() => dismiss(id)}>×</button>
      </p>`,
    )}
  </div>`;
}

/** A button whose `onClick` may be async: it ignores clicks while busy, and shows a failure as a note. It is not
 * `disabled` while busy, which would take away its focus. */
export function Button({ onClick, children, disabled = false, kind = "", ...rest }) {
  const [busy, setBusy] = useState(false);
  const mounted = useRef(true);
  useEffect(() => () => (mounted.current = false), []);
  async function act(event) {
    if (busy) return;
    setBusy(true);
    try {
      await onClick(event);
    } catch (problem) {
      sayProblem(problem);
    } finally {
      if (mounted.current) setBusy(false);
    }
  }
  return html`<button
    type="button"
    class=${kind}
    disabled=${disabled}
    aria-disabled=${busy ? "true" : undefined}
    aria-busy=${busy}
    onClick=${act}
    ...${rest}
  >
    ${children}
  </button>`;
}

/** A modal dialog; Escape and a click outside call `onClose`, the latter unless it `staysOpen`. The browser traps and
 * restores the focus. */
export function Dialog({ title, onClose, children, wide = false, staysOpen = false }) {
  const dialog = useRef(null);
  // A layout effect, since a dialog already removed from the page cannot restore the focus.
  useLayoutEffect(() => {
    const element = dialog.current;
    element.showModal();
    return () => element.close();
  }, []);
  const onCancel = (event) => {
    event.preventDefault();
    onClose();
  };
  // Selecting text past the edge also ends in a click on the dialog element: the press must begin outside too.
  const isOutside = useRef(false);
  const onPointerDown = ({ target }) => (isOutside.current = target === dialog.current);
  const onClick = ({ target }) => !staysOpen && isOutside.current && target === dialog.current && onClose();
  return html`<dialog
    ref=${dialog}
    class=${wide ? "wide" : ""}
    aria-label=${title}
    onCancel=${onCancel}
    onPointerDown=${onPointerDown}
    onClick=${onClick}
  >
    <div class="dialog-body">
      <header>
        <h2>${title}</h2>
        <button class="plain" aria-label="Close" onClick=${onClose}>×</button>
      </header>
      ${children}
    </div>
  </dialog>`;
}

/** Asks before an irreversible action. `onConfirm` may be async; `dismiss` labels the other button. */
export function Confirm({ title, text, verb, onConfirm, onClose, dismiss = "Cancel" }) {
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <p>${text}</p>
    <footer>
      <button onClick=${onClose}>${dismiss}</button>
      <${Button} kind="danger" onClick=${async () => (await onConfirm(), onClose())}>${verb}<//>
    </footer>
  <//>`;
}

/** A signal of the server's time in ms, updated every second while the page is visible. */
export const now = signal(serverNow());
setInterval(() => {
  if (document.visibilityState === "visible") now.value = serverNow();
}, 1000);

/** A time as "5 min. ago", with the exact time as its tooltip. */
export function Ago({ time }) {
  return html`<time ...${exactly(time)}>${ago(time, now.value)}</time>`;
}

/** Props of a `<time>`, whose tooltip is the exact time. It is set when the pointer arrives, since formatting it takes
 * longer than drawing its row. */
export const exactly = (time) => ({
  datetime: time,
  onPointerEnter: ({ currentTarget }) => (currentTarget.title = day(time)),
});

/** A colored label for a state. */
export function Badge({ kind, children }) {
  return html`<span class="badge ${kind}">${children}</span>`;
}

/** A session's status: what it does now or how its last run ended. */
export function StatusBadge({ session }) {
  const { status, outcome } = session;
  if (status === "awaiting_approval") return html`<${Badge} kind="waiting">awaiting approval<//>`;
  if (status === "awaiting_client") return html`<${Badge} kind="waiting">awaiting client<//>`;
  if (status === "running") return html`<${Badge} kind="running">running<//>`;
  if (outcome === null) return html`<${Badge} kind="idle">idle<//>`;
  return html`<${Badge} kind=${outcomeKind(outcome)}>${outcome.replace("_", " ")}<//>`;
}

/** The kind of badge for how a run ended. */
export const outcomeKind = (outcome) => ({ completed: "good", failed: "bad" })[outcome] ?? "warn";

/** A failed load, with a button to retry. */
export function Failure({ problem, onRetry }) {
  return html`<div class="failure" role="alert">
    <p>${problem.message}</p>
    <p class="dim">${problem.code}</p>
    ${onRetry && html`<${Button} onClick=${onRetry}>Retry<//>`}
  </div>`;
}
