/** The dialogs to rename, fork and delete a session. */

import { nameOf } from "../core/format.js";
import { patch, remove, sessionPath } from "../core/http.js";
import { html, useState } from "../core/ui.js";
import { Button, Confirm, Dialog, sayProblem } from "./basic.js";
import { ForkDialog } from "./fork_dialog.js";

/** The server's maximum title length, in characters. */
const MOST_CHARS = 300;

/** The dialog with this name, "rename", "fork" or "delete"; nothing for other names. */
export function SessionDialog({ name, session, onClose, onRenamed, onDeleted }) {
  if (name === "rename") return html`<${RenameDialog} session=${session} onClose=${onClose} onRenamed=${onRenamed} />`;
  if (name === "fork") return html`<${ForkDialog} sessionId=${session.id} onClose=${onClose} />`;
  if (name !== "delete") return null;
  return html`<${DeleteDialog} session=${session} onClose=${onClose} onDeleted=${onDeleted} />`;
}

/** `onRenamed(session)` gets the renamed session. */
function RenameDialog({ session, onClose, onRenamed = () => {} }) {
  const [title, setTitle] = useState(session.title ?? "");
  const rename = async () => {
    // Without a title, the task is used as the name.
    onRenamed(await patch(sessionPath(session.id), { title: title.trim() || null }));
    onClose();
  };
  const onKeyDown = (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    rename().catch(sayProblem);
  };
  return html`<${Dialog} title="Rename session" onClose=${onClose}>
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
      <button type="button" onClick=${onClose}>Cancel</button>
      <${Button} kind="primary" onClick=${rename}>Rename<//>
    </footer>
  <//>`;
}

/** `onDeleted()` is called after the session is deleted. */
function DeleteDialog({ session, onClose, onDeleted = () => {} }) {
  const ends = session.status === "idle" ? "" : "Its run will be stopped. ";
  const confirm = async () => {
    try {
      await remove(sessionPath(session.id));
    } catch (problem) {
      // It has already been deleted.
      if (problem.status !== 404) throw problem;
    }
    onDeleted();
  };
  return html`<${Confirm}
    title="Delete session?"
    text="${ends}“${nameOf(session)}” will be deleted with its history, files and sandbox. This cannot be undone."
    verb="Delete"
    onConfirm=${confirm}
    onClose=${onClose}
  />`;
}
