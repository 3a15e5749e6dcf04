/** What is asked before a session is renamed or deleted. */

import { plainLine } from "../core/format.js";
import { patch, remove, sessionPath } from "../core/http.js";
import { html, useState } from "../core/ui.js";
import { Button, Confirm, Dialog, sayProblem } from "./basic.js";

/** The API's longest title. */
const MOST_CHARS = 300;

/** What a session is called: its title, else its task, on one line. */
const nameOf = ({ title, task, id }) => plainLine(title || task || id);

/** `onRenamed(session)` gets the session as it is then. */
export function RenameDialog({ session, onClose, onRenamed = () => {} }) {
  const [title, setTitle] = useState(session.title ?? "");
  const rename = async () => {
    // Without a title, the task stands in for it.
    onRenamed(await patch(sessionPath(session.id), { title: title.trim() || null }));
    onClose();
  };
  const onKeyDown = (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    rename().catch(sayProblem);
  };
  return html`<${Dialog} title="Rename the session" onClose=${onClose}>
    <div class="field">
      <label for="session-title">Title</label>
      <input
        id="session-title"
        autofocus
        maxlength=${MOST_CHARS}
        value=${title}
        onInput=${(event) => setTitle(event.currentTarget.value)}
        onKeyDown=${onKeyDown}
      />
    </div>
    <footer>
      <button type="button" onClick=${onClose}>Keep</button>
      <${Button} kind="primary" onClick=${rename}>Rename<//>
    </footer>
  <//>`;
}

/** `onDeleted()` is called once it is gone. */
export function DeleteDialog({ session, onClose, onDeleted = () => {} }) {
  const ends = session.status === "idle" ? "" : "Its run is ended. ";
  const confirm = async () => {
    try {
      await remove(sessionPath(session.id));
    } catch (problem) {
      // Somebody else was faster.
      if (problem.status !== 404) throw problem;
    }
    onDeleted();
  };
  return html`<${Confirm}
    title="Delete the session?"
    text="${ends}“${nameOf(session)}” is removed with its history, its files and its sandbox. This cannot be undone."
    verb="Delete"
    onConfirm=${confirm}
    onClose=${onClose}
  />`;
}
