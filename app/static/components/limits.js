/** A session's limits and how much of each is used. */

import { count, dollars, duration } from "../core/format.js";
import { html } from "../core/ui.js";
import { totalTokens } from "../core/usage.js";
import { stepsOf } from "../state/run_ends.js";
import { now } from "./basic.js";

const seconds = (number) => duration(number * 1000);

/** `run` is the newest one (state/run_ends.js), `attempts` are those of all steps; `knownCost` is the part of the cost with known
 * prices, which counts against the limit. */
export function Limits({ session, run, attempts, knownCost }) {
  const { limits, usage } = session;
  return html`<div class="limits">
    <${RunSteps} used=${run && stepsOf(run, attempts)} most=${limits.max_steps} />
    <${RunTime} run=${run} most=${limits.max_seconds} />
    <${Limit} name="Total tokens" used=${totalTokens(usage)} most=${limits.max_tokens} format=${count} />
    <${Cost} cost=${usage.cost_usd} knownCost=${knownCost} most=${limits.max_cost_usd} />
  </div>`;
}

/** A run that reaches its limit makes one closing step beyond it. */
function RunSteps({ used, most }) {
  const isClosed = most !== null && used === most + 1;
  const note = isClosed ? ", plus a closing step" : "";
  const shown = isClosed ? most : used;
  return html`<${Limit} name="Steps of this run" used=${shown} most=${most} format=${count} note=${note} />`;
}

function Cost({ cost, knownCost, most }) {
  const note = cost === null ? ", some prices unknown" : "";
  return html`<${Limit} name="Total cost" used=${cost ?? knownCost} most=${most} format=${dollars} note=${note} />`;
}

/** A component of its own, since it changes every second. */
function RunTime({ run, most }) {
  const end = run?.endedAt ?? now.value;
  const used = run && Math.max(0, (end - run.startedAt) / 1000);
  return html`<${Limit} name="Time of this run" used=${used} most=${most} format=${seconds} />`;
}

function Limit({ name, used, most, format, note = "" }) {
  const text = `${format(used ?? 0)} ${most === null ? "· no limit" : `of ${format(most)}`}${note}`;
  return html`<div class="limit">
    <span class="limit-name">${name}</span>
    <span class="numbers">${text}</span>
    ${most !== null && html`<${Bar} name=${name} share=${(used ?? 0) / most} text=${text} />`}
  </div>`;
}

function Bar({ name, share, text }) {
  const percent = Math.min(100, Math.round(share * 100));
  const kind = share >= 1 ? "full" : share >= 0.8 ? "near" : "";
  return html`<span
    class="limit-bar ${kind}"
    role="meter"
    aria-label=${name}
    aria-valuemin="0"
    aria-valuemax="100"
    aria-valuenow=${percent}
    aria-valuetext=${text}
  >
    <span style=${{ width: `${percent}%` }}></span>
  </span>`;
}
