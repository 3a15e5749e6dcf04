/** Draws a context over its steps: uPlot on two canvases, tokens above and cache reuse below. */

import { compact } from "../core/format.js";
import { color } from "../core/theme.js";
import { cacheReuse } from "../core/usage.js";

/** The library, loaded with the first chart: evaluating it takes 20 ms. */
let uPlot = null;

/** Loads what a `ContextPlot` needs. */
export async function loadPlot() {
  uPlot ??= (await import("../vendor/uplot.js")).default;
}

const HEIGHT = 258;
const REUSE_HEIGHT = 86;
const AXIS_WIDTH = 46;
const TITLE_SIZE = 18;
/** The minimum width of a step to get its own dot, in px. */
const DOT_ROOM = 9;
/** Margin at both ends, in steps. */
const MARGIN = 0.5;
const WHOLE_NUMBERS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000];

const COLORS = ["accent", "bad", "dim", "line", "running", "surface", "waiting", "warn"];

/** The page's current colors, by name. */
const palette = () => Object.fromEntries(COLORS.map((name) => [name, color(`--${name}`)]));

const withAlpha = (color, alpha) => color.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);

const font = () => `12px ${getComputedStyle(document.body).fontFamily}`;

/** The two canvases in an element. `onHover(index)` gets the index of the nearest point, or null; `onPick(index)` is
 * called on a click. */
export class ContextPlot {
  #tokens;
  #reuse;
  #points = [];
  #whole = true;
  #colors = palette();

  constructor(element, { onHover, onPick }) {
    const width = Math.max(200, element.clientWidth);
    const hover = (plot) => onHover(plot.cursor.idx ?? null);
    this.#tokens = new uPlot(this.#tokensOptions(width, hover), this.#columns(), element);
    this.#reuse = new uPlot(this.#reuseOptions(width, hover), [[], []], element);
    const { over } = this.#tokens;
    let pressedAt = 0;
    over.addEventListener("mousedown", (event) => (pressedAt = event.clientX));
    over.addEventListener("click", (event) => {
      const { idx } = this.#tokens.cursor;
      // The end of a drag is not a click.
      if (idx != null && Math.abs(event.clientX - pressedAt) < 4) onPick(idx);
    });
  }

  /** Draws these points; with `whole` the scale extends to the window's limit. */
  draw(points, whole) {
    const zoom = this.#zoom();
    this.#points = points;
    this.#whole = whole;
    const columns = this.#columns();
    this.#tokens.setData(columns);
    this.#reuse.setData([columns[0], points.map(reuseOf)]);
    if (zoom) this.#tokens.setScale("x", zoom);
    if (zoom) this.#reuse.setScale("x", zoom);
  }

  resize(width) {
    this.#tokens.setSize({ width, height: HEIGHT });
    this.#reuse.setSize({ width, height: REUSE_HEIGHT });
  }

  /** Redraws in the page's current colors. */
  repaint() {
    this.#colors = palette();
    this.#tokens.redraw(false, true);
    this.#reuse.redraw(false, true);
  }

  /** Moves the cursor to a point without calling `onHover`. */
  pointAt(index) {
    const point = this.#points[index];
    if (!point) return;
    const left = this.#tokens.valToPos(point.x, "x");
    const top = this.#tokens.valToPos(point.tokens, "y");
    this.#tokens.setCursor({ left, top }, false, false);
    this.#reuse.setCursor({ left, top: 0 }, false, false);
  }

  destroy() {
    this.#tokens.destroy();
    this.#reuse.destroy();
  }

  /** The visible range of steps if zoomed in; null if all are shown. */
  #zoom() {
    if (this.#points.length === 0) return null;
    const { min, max } = this.#tokens.scales.x;
    // The scale includes the margin, which is added again when it is set.
    const zoom = { min: min + MARGIN, max: max - MARGIN };
    return zoom.min > this.#points[0].x || zoom.max < this.#points.at(-1).x ? zoom : null;
  }

  #columns() {
    const column = (name) => this.#points.map((point) => point[name]);
    return [column("x"), column("limit"), column("usable"), column("tokens")];
  }

  #tokensOptions(width, hover) {
    const stepped = uPlot.paths.stepped({ align: -1 });
    const line = (name, dash) => ({
      stroke: () => this.#colors[name],
      width: 1.5,
      dash,
      paths: stepped,
      points: { show: false },
    });
    return {
      ...shared(width, HEIGHT),
      scales: { x: { time: false, range: xRange }, y: { range: () => [0, this.#top()] } },
      axes: [
        this.#axis({ label: "Step", size: 26, incrs: WHOLE_NUMBERS }),
        this.#axis({ label: "Tokens", size: AXIS_WIDTH, values: (_, ticks) => ticks.map(compact) }),
      ],
      series: [
        {},
        line("bad", [2, 3]),
        line("warn", [7, 4]),
        {
          stroke: () => this.#colors.accent,
          fill: () => withAlpha(this.#colors.accent, 0.12),
          width: 2,
          points: {
            show: (plot) => this.#points.length * DOT_ROOM <= plot.width,
            size: 5,
            filter: (_, index, shown) => (shown ? this.#stepPlaces() : null),
          },
        },
      ],
      hooks: { draw: [(plot) => this.#drawMarks(plot)], setCursor: [hover] },
    };
  }

  #reuseOptions(width, hover) {
    return {
      ...shared(width, REUSE_HEIGHT),
      scales: { x: { time: false, range: xRange }, y: { range: [0, 100] } },
      axes: [
        this.#axis({ show: false }),
        this.#axis({
          label: "Cache reuse",
          size: AXIS_WIDTH,
          splits: () => [0, 50, 100],
          values: (_, ticks) => ticks.map((tick) => `${tick}%`),
        }),
      ],
      series: [
        {},
        {
          stroke: () => this.#colors.running,
          fill: () => withAlpha(this.#colors.running, 0.5),
          width: 0,
          paths: uPlot.paths.bars({ size: [0.7, 24] }),
          points: { show: false },
        },
      ],
      hooks: { setCursor: [hover] },
    };
  }

  #axis(options) {
    return {
      stroke: () => this.#colors.dim,
      font: font(),
      labelFont: font(),
      labelSize: TITLE_SIZE,
      grid: { stroke: () => this.#colors.line, width: 1 },
      ticks: { show: false },
      gap: 4,
      ...options,
    };
  }

  /** Dots are for steps; marks have their own symbols. */
  #stepPlaces() {
    return this.#points.flatMap(({ step }, index) => (step ? [index] : []));
  }

  /** The top of the scale: the peak, or the current window if it is shown and larger. */
  #top() {
    const peak = this.#points.reduce((most, { tokens }) => Math.max(most, tokens), 1);
    return Math.max(peak, this.#whole ? (this.#points.at(-1)?.limit ?? 0) : 0) * 1.08;
  }

  #drawMarks(plot) {
    const { ctx } = plot;
    ctx.save();
    for (const point of this.#points) {
      if (point.mark && point.edge === 0 && point.mark.after !== null) drawMark(plot, ctx, point.mark, this.#colors);
    }
    ctx.restore();
  }
}

function shared(width, height) {
  return {
    width,
    height,
    padding: [8, 8, 4, 0],
    legend: { show: false },
    cursor: {
      sync: { key: "context", scales: ["x", null] },
      y: false,
      drag: { x: true, y: false },
      points: { size: 7 },
    },
  };
}

function xRange(_, low, high) {
  if (low === null) return [0, 1];
  return [low - MARGIN, high + MARGIN];
}

/** Undefined without a step, so that it does not affect the width of the bars. */
function reuseOf({ step }) {
  if (!step) return undefined;
  const share = cacheReuse(step.usage);
  return share === null ? null : share * 100;
}

/** Draws an arrow from the tokens before to the tokens after: with a diamond for a compaction, a circle for cleared
 * outputs, and a hollow diamond and dashed line for a reverted compaction. */
function drawMark(plot, ctx, { kind, item, x, before, after }, colors) {
  const ratio = uPlot.pxRatio;
  const left = plot.valToPos(x, "x", true);
  const { left: edge, width } = plot.bbox;
  if (left < edge || left > edge + width) return;
  const top = plot.valToPos(before, "y", true);
  const bottom = plot.valToPos(after, "y", true);
  const size = 4 * ratio;
  ctx.strokeStyle = kind === "round" ? colors.waiting : colors.running;
  ctx.fillStyle = item.status === "reverted" || kind === "prune" ? colors.surface : ctx.strokeStyle;
  ctx.lineWidth = 1.5 * ratio;
  ctx.setLineDash(item.status === "reverted" ? [3 * ratio, 3 * ratio] : []);
  ctx.beginPath();
  ctx.moveTo(left, top);
  ctx.lineTo(left, bottom);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.beginPath();
  if (kind === "round") diamond(ctx, left, top, size);
  else ctx.arc(left, top, size * 0.85, 0, 2 * Math.PI);
  ctx.fill();
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(left - size * 0.8, bottom - size);
  ctx.lineTo(left, bottom);
  ctx.lineTo(left + size * 0.8, bottom - size);
  ctx.stroke();
}

function diamond(ctx, x, y, size) {
  ctx.moveTo(x, y - size);
  ctx.lineTo(x + size, y);
  ctx.lineTo(x, y + size);
  ctx.lineTo(x - size, y);
  ctx.closePath();
}
