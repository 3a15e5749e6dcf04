/** What a running session is doing, in a line. */

import { callWords } from "./tool_labels.js";
import { html } from "../core/ui.js";

export function Activity({ session: { activity, compaction } }) {
  if (!activity) return compaction.in_progress ? "Compacting…" : "Thinking…";
  const { verb, argument, more } = callWords(activity);
  return html`${verb} <code>${argument}</code>${more}`;
}
