/** What a user wrote: texts as they are, links to named files, and images; as parts of a message, or still queued. */

import { inBlocks } from "./long_text.js";
import { MessageImages } from "./images.js";
import { plain, plainLine } from "../core/format.js";
import { sessionLink } from "../core/router.js";
import { html } from "../core/ui.js";
import { filesOf } from "../state/files.js";

/** How the server names a file in the text of a message. */
const NAMED_FILE = /^\[file in the workspace: (.+)\]$/gm;

/** A text without Markdown, with links for the files that are named in it. */
export function UserText({ state, text }) {
  const pieces = [];
  let end = 0;
  for (const { 0: whole, 1: path, index } of text.matchAll(NAMED_FILE)) {
    pieces.push({ text: text.slice(end, index) }, { path });
    end = index + whole.length;
  }
  pieces.push({ text: text.slice(end) });
  return pieces.map((piece, place) => {
    if (piece.path) return html`<${FileLink} key=${place} state=${state} path=${piece.path} />`;
    return html`<${AsIs} key=${place} text=${piece.text} />`;
  });
}

/** A text as it is. The line breaks around what stands on lines of its own are not drawn. */
export function AsIs({ text }) {
  const pieces = inBlocks(plain(text.replace(/^\n|\n$/g, "")));
  if (pieces.length === 1 && pieces[0] === "") return null;
  return pieces.map((piece, place) => html`<div key=${place} class="as-is block" dir="auto">${piece}</div>`);
}

/** A link that opens a file of the workspace in the files view. */
function FileLink({ state, path }) {
  return html`<p class="file-link">
    File: <a href=${sessionLink(state.id, "files")} onClick=${() => void filesOf(state).show(path)}>
      <code><bdi>${plainLine(path)}</bdi></code>
    </a>
  </p>`;
}

/** A queued message's content: a text or parts. */
export function QueuedContent({ state, content }) {
  if (typeof content === "string") return plain(content);
  return html`${content.map((part, place) => {
      if (part.type === "text") return html`<${AsIs} key=${place} text=${part.text} />`;
      return part.type === "file" ? html`<${FileLink} key=${place} state=${state} path=${part.path} />` : null;
    })}
    <${MessageImages} sessionId=${state.id} parts=${content} />`;
}
