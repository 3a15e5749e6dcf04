/** A sub-agent, as a quiet line of its parent's transcript. */

import { clock, count, day, plainLine } from "../core/format.js";
import { sessionLink } from "../core/router.js";
import { html } from "../core/ui.js";

export function SubagentNote({ note: { at, subagent_id: id, title, end } }) {
  return html`<p class=${end && end.outcome !== "completed" ? "failed" : undefined}>
    Sub-agent <a href=${sessionLink(id)}>${plainLine(title ?? id)}</a>: ${end ? ended(end) : "working"}${" "}
    <time class="numbers" datetime=${at} title=${day(at)}>${clock(at)}</time>
  </p>`;
}

function ended({ outcome, steps, error }) {
  const after = `${outcome.replace("_", " ")} after ${count(steps)} ${steps === 1 ? "step" : "steps"}`;
  return error ? html`${after} (<code>${plainLine(error.code)}</code>)` : after;
}
