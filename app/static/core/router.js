/** The current page, from the address's hash: `#/`, `#/usage`, `#/settings`, `#/sessions/ID`, `#/sessions/ID/VIEW`. */

import { signal } from "./ui.js";

/** The views of a session, in tab order. */
export const VIEWS = ["conversation", "context", "files", "changes", "usage", "events"];

/** `{page: "sessions" | "usage" | "settings" | "session", id?, view?}`. */
export const route = signal(parse(location.hash));

addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});

export function parse(hash) {
  const [first, id, view] = hash.replace(/^#\/?/, "").split("/").map(decoded);
  if (first === "sessions" && id) return { page: "session", id, view: VIEWS.includes(view) ? view : VIEWS[0] };
  return { page: ["usage", "settings"].includes(first) ? first : "sessions" };
}

/** The hash of a session's view. */
export function sessionLink(id, view = VIEWS[0]) {
  return `#/sessions/${encodeURIComponent(id)}${view === VIEWS[0] ? "" : `/${view}`}`;
}

export function go(hash) {
  location.hash = hash;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
