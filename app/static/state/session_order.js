/** The order of sessions and the filter, both the same as the server's. */

/** The sessions, newest first, with this one added or replaced. With `hasMore`, a session older than all others is left
 * to a later page. */
export function place(sessions, session, hasMore) {
  const index = sessions.findIndex(({ id }) => id === session.id);
  if (index >= 0) return sessions.with(index, session);
  const next = sessions.findIndex((other) => isNewer(session, other));
  if (next < 0) return hasMore ? sessions : [...sessions, session];
  return sessions.toSpliced(next, 0, session);
}

function isNewer(one, other) {
  if (one.created_at !== other.created_at) return one.created_at > other.created_at;
  return one.id > other.id;
}

/** Whether a session matches the filter: its status, and its text in title or task. */
export function matches(session, { status, q }) {
  if (status && session.status !== status) return false;
  if (!q) return true;
  return [session.title, session.task].some((text) => text && folded(text).includes(folded(q)));
}

/** The database only ignores the case of ASCII letters. */
const folded = (text) => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
