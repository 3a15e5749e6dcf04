/** The change that a call makes to a file: the first lines of its diff, or all of them. */

import { useContext, useMemo, html } from "../core/ui.js";
import { changesOf, diffOfCall } from "../core/edits.js";
import { count } from "../core/format.js";
import { Lines } from "./change_labels.js";
import { DiffRows } from "./diff_rows.js";
import { FoldsContext } from "./fold.js";

/** Lines of a diff that are shown unless the user asks for all. */
const FEW = 16;
/** With up to this many more, all are shown. */
const SPARE = 4;

/** The diff of a call (see core/edits.js), or null if it does not change a file or its arguments are unusual. */
export function useEditDiff({ name, arguments: args, open }, result) {
  const output = result?.status === "completed" ? result.output : null;
  const isPossible = !open && (result === null || output !== null);
  return useMemo(() => (isPossible ? diffOfCall(name, args, output) : null), [name, args, output, isPossible]);
}

export function EditDiff({ diff, path, callId }) {
  const folds = useContext(FoldsContext);
  const key = `diff ${callId}`;
  const isWhole = folds.of(key).value || diff.lines.length <= FEW + SPARE;
  const shown = useMemo(() => (isWhole ? diff : { ...diff, lines: diff.lines.slice(0, FEW) }), [diff, isWhole]);
  if (diff.lines.length === 0) return null;
  return html`<div class="edit-diff" role="region" aria-label="Diff">
    <${DiffRows} diff=${shown} path=${path} />
    ${diff.lines.length > FEW + SPARE &&
    html`<button type="button" class="plain" aria-expanded=${isWhole} onClick=${() => folds.toggle(key)}>
      ${isWhole ? "Show less" : `Show all ${count(diff.lines.length)} lines`}
    </button>`}
  </div>`;
}

/** How many lines a diff adds and removes. */
export const DiffCount = ({ diff }) => html`<${Lines} ...${changesOf(diff)} />`;
