/** Forks a session: a new one with its history up to some message, and a copy of its workspace. */

import { post, sessionPath } from "../core/http.js";
import { go, sessionLink } from "../core/router.js";
import { html, useId, useState } from "../core/ui.js";
import { Button, Dialog, say } from "./basic.js";

/** Longest title that the server takes, in characters. */
const LONGEST_TITLE = 300;

/** Forks a session, after a message or as it is, and goes to the new one. */
export async function forkSession(sessionId, { afterMessageId, title } = {}) {
  const body = {};
  if (afterMessageId) body.after_message_id = afterMessageId;
  if (title) body.title = title;
  const fork = await post(sessionPath(sessionId, "fork"), body);
  say("This is the fork; the session that it came from goes on as it was.");
  go(sessionLink(fork.id));
}

/** Asks for a fork's title and makes it; after the message `afterMessageId`, or of all there is. */
export function ForkDialog({ sessionId, afterMessageId, onClose }) {
  const id = useId();
  const [title, setTitle] = useState("");
  async function fork() {
    await forkSession(sessionId, { afterMessageId, title: title.trim() });
    onClose();
  }
  return html`<${Dialog} title="Fork this session" onClose=${onClose}>
    <p>
      A new session with the history up to ${afterMessageId ? "this message" : "the last step that has ended"}, and a
      ${" "}copy of the workspace as it is now. This one goes on as it is.
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
