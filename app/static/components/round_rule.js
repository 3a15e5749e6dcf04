/** A compaction round as a line across the transcript, after the last message that it covers, with its summary. */

import { compact } from "../core/format.js";
import { sessionLink } from "../core/router.js";
import { html, useContext } from "../core/ui.js";
import { Badge } from "./basic.js";
import { FoldsContext } from "./fold.js";
import { Markdown } from "./markdown.js";
import { isWithoutModel, REASONS } from "./round_labels.js";

export function RoundRule({ sessionId, round: item }) {
  const { round, reason, summary, tokens_before: before, tokens_after: after } = item;
  const folds = useContext(FoldsContext);
  const key = `round ${round}`;
  const isOpen = folds.of(key).value;
  return html`<p class="rule">
      <span title="Compaction ${round}: ${REASONS[reason] ?? reason}">
        Compacted <span class="numbers">${compact(before)} → ${compact(after)}</span>
      </span>
      ${isWithoutModel(item) && html`<${Badge} kind="warn">Summarized without a model<//>`}
      ${summary &&
      html`<button type="button" class="link" aria-expanded=${isOpen} onClick=${() => folds.toggle(key)}>
        ${isOpen ? "hide summary" : "read summary"}
      </button>`}
      <a href=${sessionLink(sessionId, "context")}>context</a>
    </p>
    ${isOpen &&
    html`<div class="rule-summary">
      <p class="dim">The model sees this summary instead of the marked messages above.</p>
      <${Markdown} id="rule-${round}-${sessionId}" text=${summary} isWhole=${true} />
    </div>`}`;
}
