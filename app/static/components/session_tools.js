/** The tools of a session in the context view: where each comes from and what it costs, and its MCP servers. */

import { count, plain, plainLine } from "../core/format.js";
import { get, sessionPath } from "../core/http.js";
import { html, useEffect, useState } from "../core/ui.js";
import { Badge, Failure } from "./basic.js";
import { ContextFold } from "./context_fold.js";
import { LongText } from "./long_text.js";
import { toolName } from "./tool_labels.js";

const SOURCES = { builtin: "built-in", output: "output", client: "client" };
const SERVER_KINDS = { ready: "good", failed: "bad" };
const SERVER_STATUSES = { unknown: "not connected yet" };

/** `tools` are those of the shown request; the sources, the servers and the tools that are not sent whole are as of
 * now. */
export function SessionTools({ tools, state, history }) {
  const [list, setList] = useState({ items: [], servers: [] });
  const [problem, setProblem] = useState(null);
  const load = () => get(sessionPath(state.id, "tools")).then(setList, setProblem);
  useEffect(() => void load(), [tools]);
  const sources = new Map(list.items.map((tool) => [tool.name, sourceOf(tool)]));
  const found = list.items.filter(({ whole }) => !whole);
  return html`${problem && html`<${Failure} problem=${problem} onRetry=${() => (setProblem(null), load())} />`}
    <ul class="cx-tools">
      ${tools.map((tool) => html`<${Tool} key=${tool.name} ...${{ tool, source: sources.get(tool.name), history }} />`)}
    </ul>
    ${found.length > 0 &&
    html`<p class="dim">Not in the request: the model finds and calls these with mcp_search.</p>
      <ul class="cx-tools">
        ${found.map((tool) => html`<${Tool} key=${tool.name} ...${{ tool, source: sourceOf(tool), history }} />`)}
      </ul>`}
    <${Servers} servers=${list.servers} />`;
}

const sourceOf = ({ source, server }) => (source === "mcp" ? `MCP server ${server}` : (SOURCES[source] ?? source));

function Tool({ tool: { name, tokens, description, parameters }, source, history }) {
  const head = `${toolName(name)}, ${count(tokens)} tokens${source ? `, ${plainLine(source)}` : ""}`;
  return html`<li>
    <${ContextFold} name=${head} foldKey="tool-${name}" history=${history}>
      <p>${plain(description)}</p>
      ${parameters &&
      html`<${LongText} label="Parameters of ${name}" text=${plain(JSON.stringify(parameters, null, 2))} />`}
    <//>
  </li>`;
}

function Servers({ servers }) {
  if (servers.length === 0) return null;
  return html`<h3>MCP servers</h3>
    <ul class="cx-servers">
      ${servers.map((server) => html`<${Server} key=${server.name} server=${server} />`)}
    </ul>`;
}

function Server({ server: { name, url, command, status, tools, left_out: left, code, detail } }) {
  const leftOut = Object.entries(left ?? {});
  return html`<li>
    <strong>${plainLine(name)}</strong>${" "}
    <${Badge} kind=${SERVER_KINDS[status] ?? ""}>${SERVER_STATUSES[status] ?? status}<//>${" "}
    <code class="dim">${plainLine(url ?? command ?? "")}</code>
    ${status === "ready" && ` ${count(tools)} ${tools === 1 ? "tool" : "tools"}`}
    ${code && html` <code>${plainLine(code)}</code> ${plainLine(detail ?? "")}`}
    ${leftOut.length > 0 &&
    html`<ul>
      ${leftOut.map(
        ([tool, why]) => html`<li key=${tool}><code>${plainLine(tool)}</code> left out: ${plainLine(why)}</li>`,
      )}
    </ul>`}
  </li>`;
}
