/** The nodes of a cluster, and which one runs a session. Both show nothing for a server on its own. */

import { count } from "../core/format.js";
import { get, sessionPath } from "../core/http.js";
import { html, useEffect } from "../core/ui.js";
import { isCluster, loadNodes, nodeName, nodes } from "../state/nodes.js";
import { Ago, Badge } from "./basic.js";
import { TableBox } from "./usage_table.js";

const KINDS = { ready: undefined, draining: "waiting", lost: "failed" };

/** A table of all nodes. */
export function NodesSection() {
  if (!isCluster()) return null;
  const { items, waiting } = nodes.value;
  return html`<section aria-labelledby="nodes">
    <h2 id="nodes">Nodes</h2>
    ${waiting > 0 && html`<p class="dim">${count(waiting)} sessions wait for a worker.</p>`}
    <${TableBox} name="Nodes">
      <thead>
        <tr>
          <th scope="col">Node</th>
          <th scope="col">Role</th>
          <th scope="col">Status</th>
          <th scope="col" class="number">Sessions</th>
          <th scope="col" class="number">Slots</th>
          <th scope="col">Version</th>
          <th scope="col">Last seen</th>
        </tr>
      </thead>
      <tbody>
        ${items.map((node) => html`<${Node} key=${node.id} node=${node} />`)}
      </tbody>
    <//>
  </section>`;
}

function Node({ node }) {
  return html`<tr>
    <th scope="row">${nodeName(node.id)}</th>
    <td>${node.role}</td>
    <td><${Badge} kind=${KINDS[node.status]}>${node.status}<//></td>
    <td class="number">${count(node.sessions)}</td>
    <td class="number">${count(node.slots)}</td>
    <td>${node.version}</td>
    <td><${Ago} time=${node.seen_at} /></td>
  </tr>`;
}

/** Where a session runs. No event says so, hence the session is read again when its run starts or a step ends. */
export function RunsOn({ state, session }) {
  useEffect(() => {
    loadNodes().catch(() => {});
  }, [state, session.node]);
  useEffect(() => {
    if (!isCluster()) return;
    get(sessionPath(state.id))
      .then(({ node }) => state.update({ node }))
      .catch(() => {});
  }, [state, state.runs.value, session.status, session.steps, isCluster()]);
  if (!session.node || !isCluster()) return null;
  return html`<span class="dim node" title="Node ${session.node}">on ${nodeName(session.node)}</span>`;
}
