/** A compaction round as a line across the transcript, after the last message that it covers. */

import { compact } from "../core/format.js";
import { sessionLink } from "../core/router.js";
import { html } from "../core/ui.js";
import { REASONS } from "./round_labels.js";

export function RoundRule({ sessionId, round: { round, reason, tokens_before: before, tokens_after: after } }) {
  return html`<p>
    <span>Compaction ${round}, ${REASONS[reason] ?? reason}:</span>${" "}
    <span class="numbers">${compact(before)} → ${compact(after)} tokens.</span>${" "}
    <span>The model sees a summary of the messages above.</span>${" "}
    <a href=${sessionLink(sessionId, "context")}>Context</a>
  </p>`;
}
