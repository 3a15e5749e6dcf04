/** The order of sessions and the filter, both the same as the server's, and the sections of the list. */

/** The sections in order: `[name, contains(session)]`. */
export const SECTIONS = [
  ["Needs you", needsYou],
  ["Running", ({ status }) => status === "running"],
  ["Done", (session) => session.status === "idle" && !needsYou(session)],
];

/** Whether a session waits for a decision or a client's result, or has failed and nobody has seen it. */
export function needsYou({ status, outcome, unseen }) {
  return status.startsWith("awaiting_") || (status === "idle" && outcome === "failed" && unseen);
}

/** The sessions, last changed first, with this one added or replaced. A running session keeps its place: the list would
 * never stand still otherwise. With `hasMore`, an idle session older than all others is left to a later page. */
export function place(sessions, session, hasMore) {
  const index = sessions.findIndex(({ id }) => id === session.id);
  const held = sessions[index];
  const isRunning = held?.status === "running" && session.status === "running";
  const stays = held && (isRunning || held.placed_at >= session.updated_at);
  const placed = { ...session, placed_at: stays ? held.placed_at : session.updated_at };
  if (stays) return sessions.with(index, placed);
  const others = held ? sessions.toSpliced(index, 1) : sessions;
  const next = others.findIndex((other) => isLater(placed, other));
  if (next < 0) return hasMore && !held && placed.status === "idle" ? others : [...others, placed];
  return others.toSpliced(next, 0, placed);
}

/** These sessions in order, each once. */
export function ordered(sessions) {
  const byId = new Map(sessions.map((session) => [session.id, { ...session, placed_at: session.updated_at }]));
  return [...byId.values()].sort((one, other) => (isLater(one, other) ? -1 : 1));
}

function isLater(one, other) {
  if (one.placed_at !== other.placed_at) return one.placed_at > other.placed_at;
  return one.id > other.id;
}

/** Whether a session matches the filter: its status, and its text in title or task. */
export function matches(session, { status, q }) {
  if (status === "needs_attention" ? !needsYou(session) : status && session.status !== status) return false;
  if (!q) return true;
  return [session.title, session.task].some((text) => text && folded(text).includes(folded(q)));
}

/** The database only ignores the case of ASCII letters. */
const folded = (text) => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
