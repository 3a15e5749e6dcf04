/** The current page, from the address's hash: `#/`, `#/usage`, `#/settings`, `#/sessions/ID`, `#/sessions/ID/VIEW`,
 * each with an optional query such as `?status=running`. */

import { signal } from "./ui.js";

/** The views of a session, in tab order. */
export const VIEWS = ["conversation", "context", "files", "changes", "usage", "events"];

/** `{page: "sessions" | "usage" | "settings" | "session", id?, view?, query}`; `query` has the parameters by name. */
export const route = signal(parse(location.hash));

addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});

export function parse(hash) {
  const [path, search] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const query = Object.fromEntries(new URLSearchParams(search));
  const [first, id, view] = path.split("/").map(decoded);
  if (first === "sessions" && id) return { page: "session", id, view: VIEWS.includes(view) ? view : VIEWS[0], query };
  return { page: ["usage", "settings"].includes(first) ? first : "sessions", query };
}

/** The hash of a session's view. */
export function sessionLink(id, view = VIEWS[0], query = {}) {
  return `#/sessions/${encodeURIComponent(id)}${view === VIEWS[0] ? "" : `/${view}`}${searchOf(query)}`;
}

/** Changes parameters of the current address, without a new entry in the browser's history; empty ones are removed. */
export function setQuery(changes) {
  const before = route.peek().query;
  const query = Object.fromEntries(Object.entries({ ...before, ...changes }).filter(([, value]) => value));
  if (searchOf(query) === searchOf(before)) return;
  const hash = `${location.hash.split("?", 1)[0] || "#/"}${searchOf(query)}`;
  history.replaceState(history.state, "", hash);
  route.value = parse(hash);
}

export function go(hash) {
  location.hash = hash;
}

function searchOf(query) {
  const text = new URLSearchParams(query).toString();
  return text && `?${text}`;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
