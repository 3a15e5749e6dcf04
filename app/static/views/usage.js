/** The usage of all sessions, including deleted ones: in total, as charts, by day and by model. */

import { Failure } from "../components/basic.js";
import { NodesSection } from "../components/nodes.js";
import { UsageCharts } from "../components/usage_chart.js";
import { Figures, Legend, TableBox, UsageBar, UsageCells, UsageHeads } from "../components/usage_table.js";
import { count, formatter } from "../core/format.js";
import { get } from "../core/http.js";
import { title } from "../core/title.js";
import { html, useEffect, useState } from "../core/ui.js";
import { sumUsage, totalTokens } from "../core/usage.js";
import { loadNodes } from "../state/nodes.js";

/** How often the page is updated while it is visible, in ms. */
const EVERY_MS = 15_000;
const DAYS = 30;

const inUtc = formatter(() => new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" }));

export function UsageView() {
  const { report, problem, load } = useReport();
  useEffect(() => {
    title.value = "Usage";
  }, []);
  return html`<main class="page usage">
    <div class="page-head"><h1>Usage</h1></div>
    ${problem && html`<${Failure} problem=${problem} onRetry=${load} />`}
    ${!report && !problem && html`<p class="dim" aria-busy="true">Loading…</p>`}
    ${report && (report.items.length ? html`<${Report} report=${report} />` : html`<p>No model calls yet.</p>`)}
    <${NodesSection} />
  </main>`;
}

function useReport() {
  const [report, setReport] = useState(null);
  const [problem, setProblem] = useState(null);
  const load = async () => {
    try {
      const [report] = await Promise.all([get("/v1/usage"), loadNodes()]);
      setReport(report);
      setProblem(null);
    } catch (error) {
      setProblem(error);
    }
  };
  useEffect(() => {
    const again = () => document.visibilityState === "visible" && load();
    const timer = setInterval(again, EVERY_MS);
    document.addEventListener("visibilitychange", again);
    load();
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", again);
    };
  }, []);
  return { report, problem, load };
}

function Report({ report: { total, items } }) {
  const [shown, setShown] = useState(DAYS);
  const byDay = [...Map.groupBy(items, ({ day }) => day)];
  const days = byDay.map(([day, models]) => ({ day, models, usage: sumOf(models) }));
  const most = Math.max(...days.map(({ usage }) => totalTokens(usage)));
  return html`<section aria-label="Total usage"><${Figures} usage=${total} atLeast=${knownCost(items)} /></section>
    <${UsageCharts} items=${items} />
    <${Unpriced} items=${items} />
    <section aria-labelledby="by-day">
      <h2 id="by-day">By day and model</h2>
      <p class="dim">Days are in UTC. <${Legend} /></p>
      <${TableBox} name="Usage by day and model">
        <thead>
          <tr>
            <th scope="col">Day and model</th>
            <th scope="col" class="number">Steps</th>
            <${UsageHeads} />
          </tr>
        </thead>
        ${days.slice(0, shown).map((day) => html`<${Day} key=${day.day} ...${day} most=${most} />`)}
      <//>
      ${days.length > shown &&
      html`<button type="button" onClick=${() => setShown(shown + DAYS)}>
        Show earlier days (${count(days.length - shown)})
      </button>`}
    </section>`;
}

const knownCost = (items) => items.reduce((sum, { usage }) => sum + (usage.cost_usd ?? 0), 0);

const sumOf = (models) => sumUsage(models.map(({ usage }) => usage));

/** A note about models without known prices, for which only tokens are counted. */
function Unpriced({ items }) {
  const models = [...new Set(items.filter(({ usage }) => usage.cost_usd === null).map(({ model }) => model))];
  if (models.length === 0) return null;
  return html`<p class="hint">
    Some prices of ${models.join(", ")} are unknown: tokens are counted, but the cost is not. You can set prices in
    ${" "}<code>PALIMPSEST_MODELS</code>.
  </p>`;
}

function Day({ day, models, usage, most }) {
  return html`<tbody>
    <tr class="day">
      <th scope="rowgroup">
        ${inUtc(new Date(`${day}T00:00:00Z`))}
        <${UsageBar} usage=${usage} most=${most} />
      </th>
      <td class="number">${count(models.reduce((sum, { steps }) => sum + steps, 0))}</td>
      <${UsageCells} usage=${usage} atLeast=${knownCost(models)} />
    </tr>
    ${models.map(
      (item) => html`<tr key=${item.model}>
        <th scope="row" class="model">${item.model}</th>
        <td class="number">${count(item.steps)}</td>
        <${UsageCells} usage=${item.usage} />
      </tr>`,
    )}
  </tbody>`;
}
