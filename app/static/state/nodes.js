/** The nodes of a cluster; a server on its own has none. */

import { get } from "../core/http.js";
import { signal } from "../core/ui.js";

/** The answer of `GET /v1/nodes`; null until it is loaded. */
export const nodes = signal(null);

/** Loads the nodes. Throws a Problem. */
export async function loadNodes() {
  nodes.value = await get("/v1/nodes");
}

/** Whether the server is known to be a node of a cluster. */
export const isCluster = () => (nodes.value?.items.length ?? 0) > 0;

/** The name of a node. Nodes on one machine share its name, so the end of the id is added. */
export function nodeName(id) {
  const { name } = nodes.value?.items.find((node) => node.id === id) ?? {};
  return name ? `${name} (${id.slice(-6)})` : id.slice(-6);
}
