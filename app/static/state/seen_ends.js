/** Tells the server that the end of a run was seen, once the user sees the idle session. */

import { call, sessionPath } from "../core/http.js";
import { useEffect } from "../core/ui.js";
import { list } from "./sessions.js";

/** Marks the end of the open session's last run as seen. `session` is null until it is loaded. */
export function useSeen(session) {
  const { id, status, outcome } = session ?? {};
  useEffect(() => {
    if (status !== "idle" || outcome === null) return undefined;
    // It only matters for the order of a list: without an answer, the session stays among the unseen ones.
    const mark = () => {
      if (document.visibilityState !== "visible") return;
      document.removeEventListener("visibilitychange", mark);
      call("POST", sessionPath(id, "seen")).then(() => list.seen(id), () => {});
    };
    document.addEventListener("visibilitychange", mark);
    mark();
    return () => document.removeEventListener("visibilitychange", mark);
  }, [id, status, outcome]);
}
