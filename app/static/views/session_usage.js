/** A session's usage: in total, against its limits, by step, and the share of compaction; and its time. */

import { Failure } from "../components/basic.js";
import { Limits } from "../components/limits.js";
import { Times } from "../components/time_table.js";
import {
  Figure,
  Figures,
  Legend,
  TableBox,
  UsageBar,
  UsageCells,
  UsageHeads,
  useNewest,
} from "../components/usage_table.js";
import { count, dollars, percent } from "../core/format.js";
import { html, useEffect } from "../core/ui.js";
import { sumUsage, totalTokens } from "../core/usage.js";
import { contextOf } from "../state/context.js";
import { runEndsOf } from "../state/run_ends.js";

export function SessionUsageView({ state }) {
  const history = contextOf(state);
  useEffect(() => history.watch(), [history]);
  const session = state.session.value;
  const attempts = history.attempts.value;
  const rounds = history.rounds.value.filter(({ usage }) => usage && totalTokens(usage) > 0);
  const knownCost = [...attempts, ...rounds].reduce((sum, { usage }) => sum + (usage?.cost_usd ?? 0), 0);
  const failure = history.problem.value;
  return html`<div class="session-usage">
    ${failure && html`<${Failure} problem=${failure} onRetry=${() => history.retry()} />`}
    <section aria-labelledby="used">
      <h2 id="used">Total usage</h2>
      <${Figures} usage=${session.usage} atLeast=${knownCost}>
        <${Compaction} rounds=${rounds} total=${session.usage} />
      <//>
      ${session.usage.cost_usd === null &&
      html`<p class="hint">
        The price of a model is unknown, so the cost is too. You can set prices in
        ${" "}<code>PALIMPSEST_MODELS</code>.
      </p>`}
    </section>
    <section aria-labelledby="limits">
      <h2 id="limits">Limits</h2>
      <${Limits} session=${session} run=${runEndsOf(state).run.value} attempts=${attempts} knownCost=${knownCost} />
    </section>
    <section aria-labelledby="times">
      <h2 id="times">Time</h2>
      <${Times} attempts=${attempts} rounds=${history.rounds.value} isLoading=${history.progress.value !== null} />
    </section>
    <section aria-labelledby="by-step">
      <h2 id="by-step">By step</h2>
      <${Steps} attempts=${attempts} isLoading=${history.progress.value !== null} />
    </section>
  </div>`;
}

/** The share of compaction in the total usage: by cost if known, else by tokens. */
function Compaction({ rounds, total }) {
  const usage = sumUsage(rounds.map((round) => round.usage));
  const byCost = total.cost_usd !== null && total.cost_usd > 0;
  const share = byCost ? usage.cost_usd / total.cost_usd : totalTokens(usage) / (totalTokens(total) || 1);
  if (rounds.length === 0) return html`<${Figure} name="Compaction" value="none" />`;
  const cost = usage.cost_usd === null ? "cost unknown" : dollars(usage.cost_usd);
  return html`<${Figure} name="Compaction" value=${percent(share)}>
    of the ${byCost ? "cost" : "tokens"}: ${count(totalTokens(usage))} tokens, ${cost}
  <//>`;
}

function Steps({ attempts, isLoading }) {
  const [rows, more] = useNewest(attempts);
  if (attempts.length === 0) return html`<p class="dim">${isLoading ? "Loading…" : "No steps yet."}</p>`;
  const used = attempts.filter(({ usage }) => usage);
  const most = Math.max(...used.map(({ usage }) => totalTokens(usage)), 0);
  return html`<p class="dim">Tokens: <${Legend} /></p>
    <${TableBox} name="Usage by step">
      <thead>
        <tr>
          <th scope="col">Step</th>
          <${UsageHeads} />
        </tr>
      </thead>
      <tbody>
        ${rows.map((row) => html`<${Step} key=${row.message_id} row=${row} most=${most} />`)}
      </tbody>
    <//>
    ${more}`;
}

function Step({ row: { step, attempt, usage, finish_reason: reason }, most }) {
  return html`<tr>
    <th scope="row">
      ${count(step)}${attempt > 1 && html`<span class="dim"> attempt ${attempt}</span>`}
      ${usage && html`<${UsageBar} usage=${usage} most=${most} />`}
    </th>
    ${usage && reason ? html`<${UsageCells} usage=${usage} />` : html`<td class="dim" colspan="6">running</td>`}
  </tr>`;
}
