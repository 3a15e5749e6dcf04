/** A chart of context tokens over a session's steps, with compactions and cleared outputs; for pointer and keyboard. */

import { count, duration, percent } from "../core/format.js";
import { isDark } from "../core/theme.js";
import { html, useEffect, useRef, useSignal, useSignalEffect, useState } from "../core/ui.js";
import { cacheReuse, promptTokens } from "../core/usage.js";
import { savedShare } from "../state/context_marks.js";
import { sayProblem } from "./basic.js";
import { ContextPlot, loadPlot } from "./chart_plot.js";
import { clearedOf, price, PRUNE_REASONS, REASONS } from "./round_labels.js";
import { StepTable } from "./step_table.js";

/** If the context peaks below this share of the window, the scale fits the context, not the window. */
const LOW = 0.2;
const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

/** `onPick(point)` is called with the step or mark that the user selects. */
export function Chart({ history, onPick }) {
  const points = history.points.value;
  const chosen = useSignal(null);
  const wholeChosen = useSignal(null);
  const plot = useRef(null);
  const peak = points.reduce((most, { tokens }) => Math.max(most, tokens), 0);
  const whole = wholeChosen.value ?? peak >= LOW * (points.at(-1)?.limit ?? 0);
  const at = chosen.value !== null && points[chosen.value] ? chosen.value : points.length - 1;
  const pick = (index) => points[index] && onPick(points[index]);
  function onKeyDown(event) {
    if (event.key === "Enter") return pick(at);
    const by = KEYS[event.key];
    if (by === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    chosen.value = Math.max(0, Math.min(points.length - 1, at + by));
    plot.current?.pointAt(chosen.value);
  }
  if (points.length === 0) return html`<p class="dim">No steps yet.</p>`;
  return html`<figure class="chart">
    <div
      class="chart-box"
      tabindex="0"
      role="group"
      aria-label="Chart of context tokens over ${count(history.steps.value.length)} steps. Use the arrow keys to move
        between steps and Enter to open a step or a compaction."
      onKeyDown=${onKeyDown}
    >
      <${Canvas} plot=${plot} points=${points} whole=${whole} chosen=${chosen} onPick=${pick} />
    </div>
    <figcaption>
      <${Legend} />
      <span class="dim cx-zoom">Click to open · drag to zoom · double-click to reset</span>
      <label class="cx-check">
        <input type="checkbox" checked=${whole} onChange=${(event) => (wholeChosen.value = event.target.checked)} />
        Show the full context window
      </label>
    </figcaption>
    <p class="chart-text numbers" aria-live=${chosen.value === null ? "off" : "polite"}>
      <${PointText} point=${points[at]} isNewest=${chosen.value === null} />
    </p>
    <${StepTable} history=${history} />
  </figure>`;
}

function Canvas(props) {
  const [isLoaded, setLoaded] = useState(false);
  useEffect(() => void loadPlot().then(() => setLoaded(true), sayProblem), []);
  return isLoaded ? html`<${Canvases} ...${props} />` : html`<div class="chart-canvas"></div>`;
}

/** The canvases, which uPlot owns; `plot` is a ref to the `ContextPlot`. */
function Canvases({ plot, points, whole, chosen, onPick }) {
  const element = useRef(null);
  const pick = useRef(onPick);
  pick.current = onPick;
  useEffect(() => {
    const made = new ContextPlot(element.current, {
      onHover: (index) => (chosen.value = index),
      onPick: (index) => pick.current(index),
    });
    plot.current = made;
    const sizes = new ResizeObserver(([{ contentRect }]) => contentRect.width > 0 && made.resize(contentRect.width));
    sizes.observe(element.current);
    return () => {
      sizes.disconnect();
      made.destroy();
    };
  }, []);
  useEffect(() => plot.current.draw(points, whole), [points, whole]);
  useSignalEffect(() => {
    void isDark.value;
    plot.current?.repaint();
  });
  return html`<div class="chart-canvas" ref=${element}></div>`;
}

function Legend() {
  return html`<ul class="cx-legend">
    <li><span class="cx-key cx-tokens"></span>context</li>
    <li><span class="cx-key cx-usable"></span>usable</li>
    <li><span class="cx-key cx-limit"></span>limit</li>
    <li><span class="cx-key cx-compaction">◆</span>compaction</li>
    <li><span class="cx-key cx-prune">○</span>outputs cleared</li>
    <li><span class="cx-key cx-reuse"></span>cache reuse (below)</li>
  </ul>`;
}

function PointText({ point, isNewest }) {
  if (point.mark) return html`<${MarkText} mark=${point.mark} />`;
  const { step, attempt, context, usage, duration_ms: took } = point.step;
  return html`<b>Step ${count(step)}</b>${isNewest ? " (newest)" : ""}${attempt > 1 ? `, attempt ${attempt}` : ""}:
    ${" "}${count(context.tokens)} of ${count(context.usable)} usable tokens (${context.source}).
    ${promptTokens(usage) > 0 &&
    html` Read ${count(promptTokens(usage))}, ${count(usage.cache_read_tokens)} of them cached
      (${percent(cacheReuse(usage))} reuse); wrote ${count(usage.output_tokens)}; cost ${price(usage)}${
        took === null ? "" : `; took ${duration(took)}`
      }.`}`;
}

function MarkText({ mark: { kind, item, before, after } }) {
  const sizes = `${count(before)} → ${count(after)} tokens`;
  const saved = `${percent(savedShare(item))} less`;
  if (kind === "prune") {
    return html`<b>${clearedOf(item)} cleared</b>:
      ${" "}${sizes}, ${saved}; ${PRUNE_REASONS[item.reason] ?? item.reason}. No model call, $0.`;
  }
  return html`<b>Compaction ${item.round}</b>${item.status === "reverted" ? " (reverted)" : ""}:
    ${" "}${sizes}, ${saved};
    ${" "}${REASONS[item.reason] ?? item.reason}. Cost ${price(item.usage)}:
    ${" "}${count(promptTokens(item.usage))} tokens read (${percent(cacheReuse(item.usage))} from the cache),
    ${" "}${count(item.usage.output_tokens)} written.`;
}
