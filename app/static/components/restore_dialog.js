/** Restores a checkpoint, after a preview of what that changes. */

import { html, useEffect, useId, useState } from "../core/ui.js";
import { count } from "../core/format.js";
import { Badge, Button, Dialog, Failure, say } from "./basic.js";
import { checkpointName, files, Lines, shownPath, STATUS_KINDS } from "./change_labels.js";

/** Files listed in the preview. */
const LISTED = 200;
const RUNNING = "A run is active. Wait until it ends or cancel it, then restore.";

/** `changes` are the session's; `onClose` is called when it is done or cancelled. */
export function RestoreDialog({ state, changes, onClose }) {
  const id = useId();
  const items = changes.checkpoints.value ?? [];
  const [chosen, setChosen] = useState(changes.from.value ?? items[0]?.id);
  const [preview, retry] = usePreview(changes, chosen);
  const [refusal, setRefusal] = useState(null);
  const isActive = state.session.value.status !== "idle";
  const restore = async () => {
    let result;
    try {
      result = await changes.restore(chosen);
    } catch (problem) {
      setRefusal(problem.code === "session_running" ? RUNNING : problem.message);
      return;
    }
    const undo = `To undo this, restore “${checkpointName(result.saved)}”.`;
    say(`Workspace restored. ${skippedText(result.skipped)}${undo}`);
    onClose();
  };
  const isSame = preview.list !== undefined && changedOf(preview.list).length === 0;
  return html`<${Dialog} title="Restore a checkpoint" onClose=${onClose}>
    <div class="field">
      <label for=${id}>Checkpoint</label>
      <select id=${id} value=${chosen} onChange=${({ currentTarget }) => setChosen(currentTarget.value)}>
        ${items.map((item) => html`<option key=${item.id} value=${item.id}>${checkpointName(item)}</option>`)}
      </select>
    </div>
    <div class="restore-preview" aria-live="polite" aria-busy=${!preview.list && !preview.problem}>
      ${preview.problem && html`<${Failure} problem=${preview.problem} onRetry=${retry} />`}
      ${!preview.list && !preview.problem && html`<p class="dim">Comparing with the workspace…</p>`}
      ${preview.list && html`<${Preview} list=${preview.list} />`}
    </div>
    <p>
      The workspace as it is now is saved as a checkpoint first, so you can undo this. The conversation stays, and so do
      files that checkpoints don't cover.
    </p>
    ${(isActive || refusal) && html`<p class="restore-refusal" role="alert">${isActive ? RUNNING : refusal}</p>`}
    <footer>
      <button type="button" onClick=${onClose}>Cancel</button>
      <${Button} kind="danger" disabled=${isActive || isSame || !preview.list} onClick=${restore}>Restore<//>
    </footer>
  <//>`;
}

/** The changes from a checkpoint to now: `[{list, problem}, retry]`. */
function usePreview(changes, chosen) {
  const [preview, setPreview] = useState({});
  const [tries, setTries] = useState(0);
  useEffect(() => {
    let isWanted = true;
    setPreview({});
    changes.preview(chosen).then(
      (list) => isWanted && setPreview({ list }),
      (problem) => isWanted && setPreview({ problem }),
    );
    return () => {
      isWanted = false;
    };
  }, [chosen, tries]);
  return [preview, () => setTries(tries + 1)];
}

/** What the restore has left as it was, since one side does not cover it. */
function skippedText({ items, truncated }) {
  if (items.length === 0) return "";
  return `Skipped ${files(items.length)}${truncated ? " or more" : ""} that checkpoints don't cover. `;
}

/** Whether a restore keeps a file because no checkpoint has its current content. */
const isKept = ({ path }, uncovered) =>
  uncovered.items.some(({ path: top }) => path === top || path.startsWith(`${top}/`));

/** What a restore does to a file that has changed since. */
const UNDONE = { added: "deleted", deleted: "added", modified: "modified", renamed: "renamed" };

/** The files that a restore changes. */
const changedOf = ({ items, not_covered: uncovered }) => items.filter((item) => !isKept(item, uncovered));

const sumOf = (items, name) => items.reduce((sum, item) => sum + (item[name] ?? 0), 0);

function Preview({ list }) {
  const { items, truncated, not_covered: uncovered } = list;
  if (items.length === 0) return html`<p>The workspace is already as it was then.</p>`;
  const changed = changedOf(list);
  return html`<p>
      This changes <strong>${files(changed.length)}${truncated ? " or more" : ""}</strong>:
      ${" "}<${Lines} additions=${sumOf(changed, "deletions")} deletions=${sumOf(changed, "additions")} />
    </p>
    <div class="restore-files" tabindex="0" role="region" aria-label="Files that change">
      <ul>
        ${items.slice(0, LISTED).map(
          (item) => html`<${Undone} key=${item.path} item=${item} isKept=${isKept(item, uncovered)} />`,
        )}
        ${items.length > LISTED && html`<li class="dim">and ${count(items.length - LISTED)} more</li>`}
      </ul>
    </div>`;
}

function Undone({ item: { path, old_path: old, status, binary, additions, deletions }, isKept }) {
  if (isKept) return html`<li><${Badge} kind="">kept<//>${" "}<code><bdi>${shownPath(path)}</bdi></code></li>`;
  const undone = UNDONE[status];
  return html`<li>
    <${Badge} kind=${STATUS_KINDS[undone]}>${undone}<//>${" "}
    <code><bdi>${shownPath(path)}</bdi>${old !== null && html` → <bdi>${shownPath(old)}</bdi>`}</code>${" "}
    ${!binary && html`<${Lines} additions=${deletions} deletions=${additions} />`}
  </li>`;
}
