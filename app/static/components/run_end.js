/** How the last run ended, and how to continue. */

import { Button } from "./basic.js";
import { count, dollars, duration, plainLine } from "../core/format.js";
import { patch, post, sessionPath } from "../core/http.js";
import { html, useId, useState } from "../core/ui.js";

/** Limits by error code. Those of a run start at zero after a resume; those of a session prevent a resume until they
 * are raised. */
const LIMITS = {
  max_steps: { label: "Max steps per run", unit: "steps", whole: true, ofRun: true },
  max_seconds: { label: "Max seconds per run", unit: "seconds", ofRun: true },
  max_tokens: { label: "Max total tokens", unit: "tokens", whole: true },
  max_cost_usd: { label: "Max total cost ($)", unit: "US dollars" },
};

const OUTCOMES = {
  failed: "The run failed.",
  cancelled: "The run was cancelled. Its output so far is kept.",
  interrupted: "The run was interrupted, for example by a server restart.",
  limit_reached: "The run reached a limit.",
};

/** The outcome of the last run, unless it completed, with buttons to continue. */
export function RunEnd({ state, session }) {
  const { outcome, error } = session;
  if (!OUTCOMES[outcome]) return null;
  const limit = outcome === "limit_reached" ? LIMITS[error?.code] : undefined;
  const resume = () => post(sessionPath(state.id, "resume"));
  const verb = limit ? `Resume with ${allowance(error.code, session)}` : "Resume";
  return html`<section class="run-end ${outcome}" aria-label="How the last run ended">
    <p role="status">${inWords(outcome, error, session)}</p>
    ${error && outcome === "failed" && html`<p class="dim">${plainLine(String(error.code))}</p>`}
    <div class="run-end-ways">
      ${limit && html`<${Raise} ...${{ state, session, name: error.code, limit, onRaised: resume }} />`}
      ${(!limit || limit.ofRun) &&
      html`<${Button} kind=${limit ? "" : "primary"} onClick=${resume}>${verb}<//>`}
    </div>
  </section>`;
}

function inWords(outcome, error, session) {
  const limits = session.limits;
  switch (outcome === "limit_reached" ? error?.code : null) {
    case "max_steps":
      return `Stopped at the ${count(error.limit ?? limits.max_steps)}-step limit`;
    case "max_seconds":
      return `Stopped at the time limit of ${duration((error.limit ?? limits.max_seconds) * 1000)}`;
    case "max_tokens":
      return `Stopped at the ${count(error.limit ?? limits.max_tokens)}-token limit`;
    case "max_cost_usd":
      return `Stopped at the ${dollars(error.limit ?? limits.max_cost_usd)} cost limit`;
    default:
      return [OUTCOMES[outcome], error?.detail && plainLine(error.detail)].filter(Boolean).join(" ");
  }
}

/** What a resumed run gets under a limit that starts at zero. */
function allowance(code, { limits }) {
  if (limits[code] === null) return "no limit";
  if (code === "max_seconds") return `another ${duration(limits[code] * 1000)}`;
  return limits[code] === 1 ? "1 more step" : `${count(limits[code])} more steps`;
}

/** Raises the limit and resumes the run. */
function Raise({ state, session, name, limit, onRaised }) {
  const id = useId();
  const [value, setValue] = useState(String((session.limits[name] ?? 0) * 2 || ""));
  const number = Number(value);
  const isValid = value !== "" && number > 0 && (!limit.whole || Number.isInteger(number));
  async function raise() {
    await patch(sessionPath(state.id), { limits: { [name]: number } });
    await onRaised();
  }
  return html`<div class="raise">
    <label for=${id}>${limit.label}</label>
    <input
      id=${id}
      type="number"
      inputmode=${limit.whole ? "numeric" : "decimal"}
      min="0"
      step=${limit.whole ? 1 : "any"}
      value=${value}
      onInput=${(event) => setValue(event.target.value)}
    />
    <${Button} kind="primary" disabled=${!isValid} onClick=${raise}>Raise limit and resume<//>
  </div>`;
}
