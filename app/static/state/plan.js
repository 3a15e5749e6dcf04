/** The agent's plan, read from the log. */

import { get, sessionPath } from "../core/http.js";

/** The newest plan's items, or null. In a long log this may take several requests. */
export async function latestPlan(sessionId) {
  for (let cursor = ""; ; ) {
    const path = `${sessionPath(sessionId, "log")}?types=plan.updated&order=desc&limit=1${cursor}`;
    const { items, next_cursor: next } = await get(path);
    if (items.length) return items[0].data.items;
    if (next === null) return null;
    cursor = `&after=${encodeURIComponent(next)}`;
  }
}
