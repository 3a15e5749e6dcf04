/** A session's limits, and how much of each is used. */

import { count, dollars, duration } from "../core/format.js";
import { html } from "../core/ui.js";
import { totalTokens } from "../core/usage.js";
import { stepsOf } from "../state/run_meter.js";
import { now } from "./basic.js";

const seconds = (number) => duration(number * 1000);

/** `run` is a RunMeter's, `attempts` those of all steps; `knownCost` is the part of the cost whose price is known, and
 * counts. */
export function Limits({ session, run, attempts, knownCost }) {
  const { limits, usage } = session;
  return html`<div class="limits">
    <${Limit} name="Steps of the run" used=${run && stepsOf(run, attempts)} most=${limits.max_steps} said=${count} />
    <${RunTime} run=${run} most=${limits.max_seconds} />
    <${Limit} name="Tokens in all" used=${totalTokens(usage)} most=${limits.max_tokens} said=${count} />
    <${Limit} name="Cost in all" used=${usage.cost_usd ?? knownCost} most=${limits.max_cost_usd} said=${dollars} />
  </div>`;
}

/** By itself, since it changes every second. */
function RunTime({ run, most }) {
  const end = run?.endedAt ?? now.value;
  const used = run && Math.max(0, (end - run.startedAt) / 1000);
  return html`<${Limit} name="Time of the run" used=${used} most=${most} said=${seconds} />`;
}

function Limit({ name, used, most, said }) {
  const text = `${said(used ?? 0)} ${most === null ? "· no limit" : `of ${said(most)}`}`;
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
