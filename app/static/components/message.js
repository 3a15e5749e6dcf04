/** One message of the transcript. */

import { exactly } from "./basic.js";
import { CopyButton } from "./copy_button.js";
import { EditInFork } from "./edit_in_fork.js";
import { Markdown } from "./markdown.js";
import { Reasoning } from "./reasoning.js";
import { ToolCall } from "./tool_call.js";
import { MessageImages } from "./images.js";
import { AsIs, UserText } from "./user_content.js";
import { clock, plainLine } from "../core/format.js";
import { sessionLink } from "../core/router.js";
import { html } from "../core/ui.js";

const LABELS = { user: "You", control: "Palimpsest", assistant: "Assistant", system: "System" };

/** A message's sender. */
export const labelOf = ({ role }) => LABELS[role] ?? role;

/** `isMore` if it continues the previous message of the same sender. */
export function Message({ state, id, isMore }) {
  const message = state.transcript.message(id)?.value;
  if (!message) return null;
  const writing = isWriting(message) && state.session.value?.status !== "idle";
  const isUnseen = message.round != null;
  const text = textOf(message);
  return html`<header class="row-head ${isMore && !writing ? "is-more" : ""}">
      <h2>${writing ? html`<span class="writing">Writing…</span>` : labelOf(message)}</h2>
      <div class="row-tools">
        <a class="row-link" href=${sessionLink(state.id, "conversation", { message: message.seq })}>
          <time class="dim numbers" ...${exactly(message.created_at)}>
            ${clock(message.created_at)}
          </time>
        </a>
        ${message.role === "user" && html`<${EditInFork} state=${state} message=${message} />`}
      </div>
      ${isUnseen && html`<span class="hidden">Not in the model's context</span>`}
    </header>
    <div class="row-body ${isUnseen ? "unseen" : ""}" title=${isUnseen ? "Not in the model's context" : undefined}>
      ${bodyOf(state, message)}
      ${text && !writing && html`<${CopyButton} text=${text} name="message" />`}
    </div>`;
}

/** The written text of a message, as it was sent. */
function textOf({ parts }) {
  return parts.filter(({ type }) => type === "text").map(({ text }) => text).join("\n\n");
}

function bodyOf(state, message) {
  if (message.role !== "assistant") return html`<${Written} state=${state} message=${message} />`;
  const last = message.parts.at(-1);
  return [
    ...message.parts.map((part) => {
      const isOpen = part === last && message.finish_reason === null;
      return html`<${Part} key=${part.id} state=${state} part=${part} isOpen=${part.open || isOpen} />`;
    }),
    html`<${End} key="end" message=${message} />`,
  ];
}

/** Whether the model is still writing the message; not once its calls run. */
function isWriting({ role, finish_reason: reason, parts }) {
  if (role !== "assistant" || reason !== null) return false;
  const last = parts.at(-1);
  return last?.type !== "tool_call" || last.open === true;
}

function Part({ state, part, isOpen }) {
  switch (part.type) {
    case "text":
      return html`<${Markdown} id=${part.id} text=${part.text} isWhole=${!isOpen} />`;
    case "reasoning":
      return part.text ? html`<${Reasoning} part=${part} isWriting=${isOpen} />` : null;
    case "tool_call":
      return html`<${ToolCall} state=${state} part=${part} />`;
    default:
      return html`<${MessageImages} sessionId=${state.id} parts=${[part]} />`;
  }
}

/** A message without Markdown, from a user or Palimpsest. Only in a user's message does the server name files. */
function Written({ state, message: { role, parts } }) {
  const TextOf = role === "user" ? UserText : AsIs;
  return groupsOf(parts).map((group) => {
    const [{ id, type, text }] = group;
    if (type === "text") return html`<${TextOf} key=${id} state=${state} text=${text} />`;
    return html`<${MessageImages} key=${id} sessionId=${state.id} parts=${group} />`;
  });
}

/** The parts in order, adjacent images together. */
function groupsOf(parts) {
  const groups = [];
  for (const part of parts) {
    const isMore = part.type === "image" && groups.at(-1)?.[0].type === "image";
    if (isMore) groups.at(-1).push(part);
    else groups.push([part]);
  }
  return groups;
}

const ENDS = {
  length: "Cut off here: the answer reached the maximum length.",
  refusal: "The model declined to answer.",
  content_filter: "The provider's content filter ended the answer here.",
  cancelled: "Cancelled here.",
  interrupted: "Interrupted here: the server stopped while the model was writing.",
};

/** How the answer ended, if not normally. */
function End({ message: { finish_reason: reason, error } }) {
  if (reason === "error") {
    const why = error ? plainLine(`${error.detail ?? error.title ?? ""} (${error.code ?? "unknown"})`) : "";
    return html`<p class="row-end bad">Failed here. ${why}</p>`;
  }
  return ENDS[reason] ? html`<p class="row-end">${ENDS[reason]}</p>` : null;
}
