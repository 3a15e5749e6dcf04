/** The clone of a session's repository, in one line above its conversation. */

import { plainLine } from "../core/format.js";
import { post, sessionPath } from "../core/http.js";
import { html, useEffect } from "../core/ui.js";
import { loadSource, sourceOf } from "../state/source.js";
import { Button } from "./basic.js";

const SHORT_HASH = 10;

export function SourceLine({ state }) {
  useEffect(() => {
    // The conversation is complete without it.
    loadSource(state).catch(() => {});
  }, [state]);
  const source = sourceOf(state).value;
  if (!source) return null;
  const { status: runStatus, outcome } = state.session.value;
  const mayRetry = runStatus === "idle" && outcome === "failed" && source.status === "failed";
  return html`<div class="source-line ${source.status}">
    <p role="status">${inWords(source, runStatus)}</p>
    ${mayRetry && html`<${Button} onClick=${() => post(sessionPath(state.id, "resume"))}>Retry<//>`}
  </div>`;
}

function inWords({ status, url = "the repository", ref, commit, detail }, runStatus) {
  const what = html`<code>${plainLine(url)}</code>${ref && html`, <code>${plainLine(ref)}</code>`}`;
  if (status === "failed") return html`Could not clone ${what}: ${plainLine(detail)}`;
  if (status === "cloned") return html`Cloned ${what} at <code title=${commit}>${commit.slice(0, SHORT_HASH)}</code>`;
  return runStatus === "idle" ? html`Stopped cloning ${what}` : html`Cloning ${what}…`;
}
