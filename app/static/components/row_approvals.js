/** The calls of a listed session that wait for approval. */

import { get, sessionPath } from "../core/http.js";
import { html, signal, useEffect, useMemo } from "../core/ui.js";
import { Approvals } from "./approvals.js";
import { sayProblem } from "./basic.js";

/** Loads the whole calls, since a decision needs all of their arguments, and again after each event of the session. */
export function RowApprovals({ session: { id, last_seq: seq, approval } }) {
  const state = useMemo(() => ({ id, approvals: signal([]) }), [id]);
  useEffect(() => {
    let isCurrent = true;
    const take = ({ items }) => isCurrent && (state.approvals.value = items);
    get(sessionPath(id, "approvals")).then(take, sayProblem);
    return () => (isCurrent = false);
  }, [id, seq]);
  return html`<div class="row-approvals"><${Approvals} state=${state} policy=${approval.policy} /></div>`;
}
