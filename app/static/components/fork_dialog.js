/** Forks a session: creates a new one with its history so far and a copy of its workspace. */

import { post, sessionPath } from "../core/http.js";
import { go, sessionLink } from "../core/router.js";
import { html, useId, useState } from "../core/ui.js";
import { Button, Dialog, say } from "./basic.js";

/** The server's maximum title length, in characters. */
const LONGEST_TITLE = 300;

/** Asks for the fork's title, creates it and opens it. */
export function ForkDialog({ sessionId, onClose }) {
  const id = useId();
  const [title, setTitle] = useState("");
  async function fork() {
    const made = await post(sessionPath(sessionId, "fork"), title.trim() ? { title: title.trim() } : {});
    say("This is the fork. The original session is unchanged.");
    go(sessionLink(made.id));
    onClose();
  }
  return html`<${Dialog} title="Fork session" onClose=${onClose}>
    <p>
      Creates a new session with the history up to the last finished step and a copy of the current workspace. This
      session is unchanged.
    </p>
    <div class="field">
      <label for=${id}>Title (defaults to this session's title)</label>
      <input
        id=${id}
        maxlength=${LONGEST_TITLE}
        value=${title}
        onInput=${(event) => setTitle(event.currentTarget.value)}
      />
    </div>
    <footer>
      <button type="button" onClick=${onClose}>Cancel</button>
      <${Button} kind="primary" onClick=${fork}>Fork<//>
    </footer>
  <//>`;
}
