/** Small charts of usage: by day, stacked by model, and by model. The table below them has the numbers. */

import { compact, dollars, formatter } from "../core/format.js";
import { html, useState } from "../core/ui.js";
import { totalTokens } from "../core/usage.js";

const DAYS = 30;
/** Models with a color; all others share the last one. */
const COLORS = 5;
const DAY_MS = 86_400_000;
const short = formatter(() => new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", timeZone: "UTC" }));

const MEASURES = {
  cost: { label: "Cost", of: ({ usage }) => usage.cost_usd ?? 0, text: dollars },
  tokens: { label: "Tokens", of: ({ usage }) => totalTokens(usage), text: compact },
};

/** `items` are those of the API's report: usage by model and day. */
export function UsageCharts({ items }) {
  const hasCost = items.some(({ usage }) => usage.cost_usd > 0);
  const [chosen, setChosen] = useState(null);
  const name = chosen ?? (hasCost ? "cost" : "tokens");
  const measure = MEASURES[name];
  const first = dayBefore(DAYS - 1);
  const recent = items.filter(({ day }) => day >= first);
  const models = totals(recent, ({ model }) => model, measure.of).sort(([, one], [, other]) => other - one);
  const colors = new Map(models.map(([model], index) => [model, Math.min(index, COLORS - 1)]));
  return html`<section class="usage-charts" aria-labelledby="usage-charts">
    <div class="page-head">
      <h2 id="usage-charts">Last ${DAYS} days</h2>
      <fieldset class="segments">
        <legend class="hidden">Measure</legend>
        ${Object.entries(MEASURES).map(
          ([value, { label }]) => html`<label key=${value}>
            <input type="radio" name="measure" checked=${value === name} onChange=${() => setChosen(value)} />
            <span>${label}</span>
          </label>`,
        )}
      </fieldset>
    </div>
    <${Days} ...${{ items: recent, measure, colors }} />
    <${Models} ...${{ models, measure, colors }} />
  </section>`;
}

/** The sums of a measure by what `key` returns: `[[key, sum]]`. */
function totals(items, key, of) {
  return [...Map.groupBy(items, key)].map(([name, found]) => [name, found.reduce((sum, item) => sum + of(item), 0)]);
}

function Days({ items, measure, colors }) {
  const byDay = Map.groupBy(items, ({ day }) => day);
  const days = Array.from({ length: DAYS }, (_, index) => dayBefore(DAYS - 1 - index));
  const sums = days.map((day) => (byDay.get(day) ?? []).reduce((sum, item) => sum + measure.of(item), 0));
  const most = Math.max(...sums);
  const share = (amount) => `${most === 0 ? 0 : (amount / most) * 100}%`;
  const total = sums.reduce((sum, each) => sum + each, 0);
  const label = `${measure.label} by day: ${measure.text(total)} in total, at most ${measure.text(most)} per day`;
  return html`<figure class="usage-days">
    <figcaption class="dim"><span class="numbers">${measure.text(most)}</span> max per day</figcaption>
    <div class="usage-columns" role="img" aria-label=${label}>
      ${days.map(
        (day, index) => html`<span
          key=${day}
          class="usage-column"
          title=${`${nameOf(day)}: ${measure.text(sums[index])}`}
        >
          ${(byDay.get(day) ?? []).map(
            (item) => html`<span
              key=${item.model}
              data-color=${colors.get(item.model)}
              style=${{ height: share(measure.of(item)) }}
            ></span>`,
          )}
        </span>`,
      )}
    </div>
    <p class="usage-axis dim" aria-hidden="true"><span>${nameOf(days[0])}</span><span>${nameOf(days.at(-1))}</span></p>
  </figure>`;
}

const dayBefore = (days) => new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10);

const nameOf = (day) => short(new Date(`${day}T00:00:00Z`));

function Models({ models, measure, colors }) {
  const most = Math.max(...models.map(([, sum]) => sum));
  return html`<ul class="usage-models" aria-label="By model">
    ${models.map(
      ([model, sum]) => html`<li key=${model}>
        <span class="usage-model">${model}</span>
        <span class="usage-row" aria-hidden="true">
          <span data-color=${colors.get(model)} style=${{ width: `${most === 0 ? 0 : (sum / most) * 100}%` }}></span>
        </span>
        <span class="numbers">${measure.text(sum)}</span>
      </li>`,
    )}
  </ul>`;
}
