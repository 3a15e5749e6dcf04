/** Searches the whole history of a session, and goes to what was found. */

import { Dialog } from "./basic.js";
import { Choices, useFound } from "./choices.js";
import { plainLine } from "../core/format.js";
import { get, sessionPath } from "../core/http.js";
import { go, sessionLink } from "../core/router.js";
import { html, useState } from "../core/ui.js";

const PAUSE_MS = 250;
const ROLES = { user: "You", assistant: "Assistant", tool: "Output", control: "Palimpsest", summary: "Summary" };

export function SessionSearch({ id, onClose }) {
  const [text, setText] = useState("");
  const q = text.trim();
  const [found, problem, of] = useFound(q, () => search(id, q), PAUSE_MS);
  const hits = of === q && found ? found.items : [];
  const items = hits.map((hit) => ({
    key: `${hit.seq} ${hit.call_id}`,
    content: html`<span class="dim">${ROLES[hit.role] ?? hit.role}</span> <${Snippet} hit=${hit} />`,
    choose: () => {
      onClose();
      go(sessionLink(id, "conversation", { message: hit.seq }));
    },
  }));
  const empty = problem?.message ?? (q && of === q ? `No messages match “${q}”` : "");
  return html`<${Dialog} title="Search this session" onClose=${onClose} wide>
    <${Choices} label="Words, paths or “phrases”" text=${text} onText=${setText} items=${items} empty=${empty} />
  <//>`;
}

async function search(id, q) {
  return q ? get(`${sessionPath(id, "search")}?${new URLSearchParams({ q })}`) : { items: [] };
}

/** The text with the words of the query marked. The server counts code points. */
function Snippet({ hit: { snippet, ranges } }) {
  const chars = [...snippet];
  const part = (start, end) => plainLine(chars.slice(start, end).join(""));
  let last = 0;
  const parts = ranges.flatMap(([start, end]) => {
    const before = part(last, start);
    last = end;
    return [before, html`<mark>${part(start, end)}</mark>`];
  });
  return html`<span class="snippet">${parts}${part(last)}</span>`;
}
