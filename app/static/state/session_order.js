/** Where a session stands in the list, and whether a filter lets it in: as the server decides both. */

/** The sessions with this one in its place, newest first, in the stead of what was held of it. With `hasMore`, one that
 * is older than all of them is left to a later page. */
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

/** Whether a session has the filter's status, and its text in title or task. */
export function matches(session, { status, q }) {
  if (status && session.status !== status) return false;
  if (!q) return true;
  return [session.title, session.task].some((text) => text && folded(text).includes(folded(q)));
}

/** The database folds the case of ASCII letters alone. */
const folded = (text) => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
