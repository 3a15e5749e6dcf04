/** A sub-agent, as a quiet line of its parent's transcript, with what it is doing while it works. */

import { Activity } from "./activity.js";
import { exactly } from "./basic.js";
import { usePolled } from "./polled.js";
import { clock, count, plainLine } from "../core/format.js";
import { get, sessionPath } from "../core/http.js";
import { sessionLink } from "../core/router.js";
import { html } from "../core/ui.js";

export function SubagentNote({ note: { at, subagent_id: id, title, end } }) {
  const session = usePolled(() => get(sessionPath(id)), end === null, ({ status }) => status === "idle").value;
  // Its end may be in a part of the log that is not loaded.
  const now = end ?? (session?.status === "idle" ? session : null);
  return html`<p class=${now && now.outcome !== "completed" ? "failed" : undefined}>
      Sub-agent <a href=${sessionLink(id)}>${plainLine(title ?? id)}</a>: ${now ? ended(now) : "working"}${" "}
      <time class="numbers" ...${exactly(at)}>${clock(at)}</time>
    </p>
    ${!now && session && html`<p class="note-now"><${Now} session=${session} /></p>`}`;
}

function Now({ session }) {
  if (session.status === "awaiting_approval") return "Waiting for your approval";
  return html`<${Activity} session=${session} />`;
}

function ended({ outcome, steps, error }) {
  const after = `${outcome.replace("_", " ")} after ${count(steps)} ${steps === 1 ? "step" : "steps"}`;
  return error ? html`${after} (<code>${plainLine(error.code)}</code>)` : after;
}
