/** Forks a session: a new one with its history so far, and a copy of its workspace. */

import { post, sessionPath } from "../core/http.js";
import { go, sessionLink } from "../core/router.js";
import { html, useId, useState } from "../core/ui.js";
import { Button, Dialog, say } from "./basic.js";

/** Longest title that the server takes, in characters. */
const LONGEST_TITLE = 300;

/** Asks for a fork's title, makes it and goes to it. */
export function ForkDialog({ sessionId, onClose }) {
  const id = useId();
  const [title, setTitle] = useState("");
  async function fork() {
    const made = await post(sessionPath(sessionId, "fork"), title.trim() ? { title: title.trim() } : {});
    say("This is the fork; the session that it came from goes on as it was.");
    go(sessionLink(made.id));
    onClose();
  }
  return html`<${Dialog} title="Fork this session" onClose=${onClose}>
    <p>
      A new session with the history up to the last step that has ended, and a copy of the workspace as it is now.
      This one goes on as it is.
    </p>
    <div class="field">
      <label for=${id}>Title of the fork; left out, it has this one's</label>
      <input
        id=${id}
        maxlength=${LONGEST_TITLE}
        value=${title}
        onInput=${(event) => setTitle(event.currentTarget.value)}
      />
    </div>
    <footer>
      <button type="button" onClick=${onClose}>Not now</button>
      <${Button} kind="primary" onClick=${fork}>Fork<//>
    </footer>
  <//>`;
}
