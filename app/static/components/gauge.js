/** How full a context is: its tokens against the usable part of the model's window, as a ring and as numbers. */

import { compact, count, percent } from "../core/format.js";
import { html } from "../core/ui.js";

/** The share of the usable tokens from which a context is near the limit: where background compaction starts. */
const NEAR = 0.8;

const SOURCES = {
  reported: "reported by the provider",
  estimated: "estimated",
  assumed: "window assumed",
};

const STATES = { near: "near the limit", over: "over the limit" };

/** "calm", "near" or "over". */
export function fullness({ tokens, usable }) {
  if (tokens > usable) return "over";
  return tokens >= usable * NEAR ? "near" : "calm";
}

/** A ring that fills up to the usable tokens; its tooltip has the exact numbers. */
export function Gauge({ context }) {
  const { tokens, limit, usable, source } = context;
  if (!limit) return html`<span class="gauge dim">no context yet</span>`;
  const state = fullness(context);
  const description = `${count(tokens)} of ${count(usable)} usable tokens, in a window of ${count(limit)};
    ${SOURCES[source] ?? source}${STATES[state] ? `; ${STATES[state]}` : ""}`.replace(/\s+/g, " ");
  return html`<span class="gauge ${state}" title=${description}>
    <span
      class="ring"
      style=${{ "--share": percent(Math.min(1, tokens / usable)) }}
      role="meter"
      aria-label="Context"
      aria-valuemin="0"
      aria-valuemax=${limit}
      aria-valuenow=${Math.min(tokens, limit)}
      aria-valuetext=${description}
    ></span>
    <span class="numbers" aria-hidden="true">${compact(tokens)} of ${compact(usable)}</span>
    ${STATES[state] &&
    html`<span class="badge ${state === "over" ? "bad" : "warn"}" aria-hidden="true">${STATES[state]}</span>`}
  </span>`;
}
