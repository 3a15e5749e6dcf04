/** The clone of a session's git repository, from its events. */

import { get, sessionPath } from "../core/http.js";
import { signal } from "../core/ui.js";

/** Its events are at the beginning of the log: no step comes before the clone. */
const QUERY = new URLSearchParams({ types: "source.started,source.completed,source.failed", limit: 200 });
const NEXT = {
  "source.started": ({ url, ref }) => ({ status: "cloning", url, ref }),
  "source.completed": ({ commit }, before) => ({ ...before, status: "cloned", commit }),
  "source.failed": ({ code, detail }, before) => ({ ...before, status: "failed", code, detail }),
};
const known = new WeakMap();

/** A signal of `{status, url, ref, commit, code, detail, seq}`, or null if the session has no source. `status` is
 * "cloning", "cloned" or "failed"; `seq` is that of the newest event. */
export function sourceOf(state) {
  if (!known.has(state)) known.set(state, signal(null));
  return known.get(state);
}

/** Applies an event. */
export function sourceChanged(state, { seq, type, data }) {
  const source = sourceOf(state);
  if (seq > (source.value?.seq ?? 0)) source.value = { ...NEXT[type](data, source.value), seq };
}

/** Loads the events that came before the stream. Throws a Problem. */
export async function loadSource(state) {
  const { items } = await get(`${sessionPath(state.id, "log")}?${QUERY}`);
  for (const event of items) sourceChanged(state, event);
}
