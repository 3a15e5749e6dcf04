/** The agent's plan: what it last gave, read from the log. */

import { get, sessionPath } from "../core/http.js";

/** The newest plan's items, null where there is none. The log may have to be looked through in several pages, which
 * takes a while where it is long. */
export async function latestPlan(sessionId) {
  for (let cursor = ""; ; ) {
    const path = `${sessionPath(sessionId, "log")}?types=plan.updated&order=desc&limit=1${cursor}`;
    const { items, next_cursor: next } = await get(path);
    if (items.length) return items[0].data.items;
    if (next === null) return null;
    cursor = `&after=${encodeURIComponent(next)}`;
  }
}
