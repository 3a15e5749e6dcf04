/** How the last run ended, in words, and how it goes on from there. */

import { Button } from "./basic.js";
import { count, dollars, duration, plainLine } from "../core/format.js";
import { patch, post, sessionPath } from "../core/http.js";
import { html, useId, useState } from "../core/ui.js";

/** Limits by the code of the error that names them. Those of a run count anew after a resume; those of a session stand
 * in its way until they are raised. */
const LIMITS = {
  max_steps: { label: "Steps of a run", unit: "steps", whole: true, ofRun: true },
  max_seconds: { label: "Seconds of a run", unit: "seconds", ofRun: true },
  max_tokens: { label: "Tokens of the session", unit: "tokens", whole: true },
  max_cost_usd: { label: "Cost of the session in US dollars", unit: "US dollars" },
};

const SAID = {
  failed: "The run failed.",
  cancelled: "The run was cancelled. What it had written is kept.",
  interrupted: "The run was interrupted, as by a restart of the server.",
  limit_reached: "The run came to a limit.",
};

/** What the last run ended with, unless it simply completed, with the ways to go on. */
export function RunEnd({ state, session }) {
  const { outcome, error } = session;
  if (!SAID[outcome]) return null;
  const limit = outcome === "limit_reached" ? LIMITS[error?.code] : undefined;
  const resume = () => post(sessionPath(state.id, "resume"));
  const verb = limit ? `Resume with ${same(error.code, session)}` : "Resume";
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
      return `The run has made as many steps as it may: ${count(error.limit ?? limits.max_steps)}.`;
    case "max_seconds":
      return `The run has taken as long as it may: ${duration((error.limit ?? limits.max_seconds) * 1000)}.`;
    case "max_tokens":
      return `The session has used as many tokens as it may: ${count(error.limit ?? limits.max_tokens)}.`;
    case "max_cost_usd":
      return `The session has cost as much as it may: ${dollars(error.limit ?? limits.max_cost_usd)}.`;
    default:
      return [SAID[outcome], error?.detail && plainLine(error.detail)].filter(Boolean).join(" ");
  }
}

/** What a resume gives the run under a limit that counts anew. */
function same(code, { limits }) {
  if (limits[code] === null) return "no limit";
  return `another ${code === "max_seconds" ? duration(limits[code] * 1000) : `${count(limits[code])} steps`}`;
}

/** A higher limit, and the run goes on under it. */
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
    <${Button} kind="primary" disabled=${!isValid} onClick=${raise}>Raise and resume<//>
  </div>`;
}
