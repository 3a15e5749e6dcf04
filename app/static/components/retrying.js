/** A failed attempt of a step or of a compaction, and when it is retried. */

import { now } from "./basic.js";
import { duration, plainLine } from "../core/format.js";
import { html } from "../core/ui.js";

export function Retrying({ retrying }) {
  if (!retrying) return null;
  return html`<p class="retrying dim">
    Attempt ${retrying.attempt} failed: ${reason(retrying)}; retrying ${when(retrying)}
  </p>`;
}

/** `Compacting… odd answered 503 (attempt 4); trying again in 9 s`. */
export function CompactionRetrying({ retrying }) {
  if (!retrying) return null;
  return html`<p class="retrying dim">
    Compacting… ${reason(retrying)} (attempt ${retrying.attempt}); trying again ${when(retrying)}
  </p>`;
}

const reason = ({ detail }) => plainLine(detail).replace(/[ .;]+$/, "");

function when({ until }) {
  const left = Math.max(0, until - now.value);
  return left > 0 ? `in ${duration(Math.ceil(left / 1000) * 1000)}` : "now";
}
