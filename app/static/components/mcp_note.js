/** The state of an MCP server, as a quiet line of the transcript. */

import { clock, count, plainLine } from "../core/format.js";
import { sessionLink } from "../core/router.js";
import { html } from "../core/ui.js";
import { exactly } from "./basic.js";

export function McpNote({ state, note: { at, server, ...note } }) {
  return html`<p class=${note.type === "mcp.failed" ? "failed" : undefined}>
    ${note.type === "mcp.failed" ? html`<${Failed} server=${server} ...${note} />` : ready(server, note)}${" "}
    <a href=${sessionLink(state.id, "context")}>Tools</a>${" "}
    <time class="numbers" ...${exactly(at)}>${clock(at)}</time>
  </p>`;
}

function ready(server, { tools, left_out: left }) {
  const leftOut = Object.keys(left ?? {}).length;
  const usable = `${count(tools.length)} ${tools.length === 1 ? "tool" : "tools"}`;
  return `MCP server ${plainLine(server)} ready: ${usable}${leftOut > 0 ? `, ${count(leftOut)} left out` : ""}.`;
}

/** What to do about failures that a retry alone does not fix. */
const NEXT = {
  secret_missing: "Add the secret; the server is retried while the session works.",
  unauthorized: "Check its credentials; the server is retried while the session works.",
};

const sentence = (text) => `${plainLine(text).trim().replace(/\.$/, "")}.`;

function Failed({ server, code, detail }) {
  return html`MCP server ${plainLine(server)} failed (<code>${plainLine(code)}</code>): ${sentence(detail)}${" "}
    Its tools are not offered. ${NEXT[code] ?? "It is retried while the session works."}`;
}
