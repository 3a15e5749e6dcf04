/** Edits a message of the user: in a fork of the session from before it, or for the first one, as a new session. */

import { post, sessionPath } from "../core/http.js";
import { go, sessionLink } from "../core/router.js";
import { html } from "../core/ui.js";
import { changeDraft } from "../state/draft.js";
import { newSession } from "../state/keys.js";
import { keepDraft } from "../state/message_draft.js";
import { Button, say } from "./basic.js";

export function EditInFork({ state, message }) {
  const text = message.parts.filter(({ type }) => type === "text").map((part) => part.text).join("\n\n");
  const edit = async () => {
    const { transcript } = state;
    const order = transcript.order.peek();
    const before = order[order.indexOf(message.id) - 1];
    if (before === undefined && transcript.hasEarlier.peek()) throw new Error("Scroll up to load earlier messages.");
    if (before === undefined) return beginAgain(state.session.peek(), text);
    const fork = await post(sessionPath(state.id, "fork"), { after_message_id: before });
    keepDraft(fork.id, text);
    say("This is a fork from before the message. Edit the message and send it; the original session is unchanged.");
    go(sessionLink(fork.id));
  };
  return html`<${Button} kind="plain row-edit" onClick=${edit}>Edit<//>`;
}

/** Nothing comes before the first message, so its session is a new one. */
function beginAgain({ model }, task) {
  changeDraft({ task, model });
  newSession();
}
