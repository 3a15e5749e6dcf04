/** What changed in the session's workspace between two checkpoints, and going back to one. */

import { Button, Failure, say } from "../components/basic.js";
import { checkpointName, files, Lines, shownPath } from "../components/change_labels.js";
import { ChangedFile } from "../components/changed_file.js";
import { RestoreDialog } from "../components/restore_dialog.js";
import { clock, count, plainLine } from "../core/format.js";
import { get, sessionPath } from "../core/http.js";
import { copy } from "../core/save.js";
import { html, useComputed, useEffect, useId, useState } from "../core/ui.js";
import { changesOf, changesPath } from "../state/changes.js";

/** Files shown at first, and with each "Show more". */
const SLICE = 100;
/** A diff with more changed lines is folded, as are all diffs after so many lines together. */
const LONG_LINES = 300;
const OPEN_LINES = 2_000;
/** Events after which the workspace or its checkpoints may be others. */
const NEWS = new Set(["session.running", "session.idle", "workspace.restored"]);

export function ChangesView({ state }) {
  const changes = changesOf(state);
  const [isRestoring, setRestoring] = useState(false);
  const from = changes.from.value;
  const to = changes.to.value;
  const news = useComputed(() => state.log.value.findLast(({ type }) => NEWS.has(type))?.seq).value;
  useEffect(() => void changes.refresh(), [news, from, to]);
  const list = changes.list.value;
  const problem = changes.problem.value;
  return html`<div class="changes-view">
    <${Toolbar} state=${state} changes=${changes} onRestore=${() => setRestoring(true)} />
    ${problem && html`<${Failure} problem=${problem} onRetry=${() => changes.refresh()} />`}
    ${!list && !problem && html`<p class="dim" aria-busy="true">Loading…</p>`}
    ${list && html`<${List} state=${state} changes=${changes} list=${list} />`}
    ${isRestoring && html`<${RestoreDialog} ...${{ state, changes, onClose: () => setRestoring(false) }} />`}
  </div>`;
}

function Toolbar({ state, changes, onRestore }) {
  const id = useId();
  const items = changes.checkpoints.value ?? [];
  const from = changes.from.value ?? items[0]?.id ?? "";
  const to = changes.to.value ?? "";
  const hasChanges = changes.list.value?.items.length > 0;
  const path = changesPath(state.id, changes.from.value, changes.to.value, "patch");
  const copyPatch = async () => {
    await copy(await changes.text());
    say("Patch copied.");
  };
  return html`<div class="changes-bar">
    <div class="changes-side">
      <label for="${id}-from">From</label>
      <${Choice} id="${id}-from" items=${items} value=${from}
        onChoose=${(chosen) => changes.choose(chosen, changes.to.value)} />
    </div>
    <div class="changes-side">
      <label for="${id}-to">To</label>
      <${Choice} id="${id}-to" items=${items} value=${to} hasNow=${true}
        onChoose=${(chosen) => changes.choose(changes.from.value, chosen || null)} />
    </div>
    <div class="changes-ways">
      <${Button} onClick=${() => changes.refresh()}>Refresh<//>
      ${hasChanges && html`<${Button} onClick=${copyPatch}>Copy patch<//>`}
      ${hasChanges && html`<a class="button" href=${path} download=${`${state.id}.patch`}>Download patch</a>`}
      ${items.length > 0 && html`<button type="button" onClick=${onRestore}>Restore…</button>`}
    </div>
  </div>`;
}

function Choice({ id, items, value, onChoose, hasNow = false }) {
  return html`<select id=${id} value=${value} disabled=${items.length === 0}
    onChange=${({ currentTarget }) => onChoose(currentTarget.value)}>
    ${items.length === 0 && !hasNow && html`<option value="">No checkpoints</option>`}
    ${items.map((item) => html`<option key=${item.id} value=${item.id}>${checkpointName(item)}</option>`)}
    ${hasNow && html`<option value="">Now</option>`}
  </select>`;
}

function List({ state, changes, list }) {
  const [shown, setShown] = useState(SLICE);
  const { items, truncated, not_covered: uncovered } = list;
  const isOpen = opener(items, changes.opened.value);
  const left = items.length - shown;
  return html`<${Summary} state=${state} changes=${changes} list=${list} />
    ${items.length === 0 && html`<${Empty} state=${state} list=${list} />`}
    <div class="changed-files">
      ${items.slice(0, shown).map(
        (item, index) =>
          html`<${ChangedFile} key=${`${index} ${item.path}`} isOpen=${isOpen[index]} ...${{ changes, item, index }} />`,
      )}
    </div>
    ${left > 0 &&
    html`<p class="more">
      <button type="button" onClick=${() => setShown(shown + SLICE)}>
        Show ${count(Math.min(left, SLICE))} of ${count(left)} more ${left === 1 ? "file" : "files"}
      </button>
    </p>`}
    ${truncated && html`<p class="dim">Only the first ${files(items.length)} are listed. The patch has all of them.</p>`}
    <${NotCovered} uncovered=${uncovered} />`;
}

/** Whether each file's diff is open: what the user chose, else short ones until there are many lines. */
function opener(items, chosen) {
  let lines = 0;
  return items.map(({ path, binary, additions, deletions }) => {
    const changed = additions + deletions;
    const isShort = !binary && changed <= LONG_LINES && lines + changed <= OPEN_LINES;
    if (isShort) lines += changed + 1;
    return chosen.get(path) ?? isShort;
  });
}

function Summary({ state, changes, list }) {
  const isActive = state.session.value.status !== "idle" && changes.to.value === null;
  const at = clock(changes.loadedAt.value);
  return html`<p class="changes-sum" role="status">
    ${list.items.length > 0 &&
    html`<strong>${files(list.items.length)}${list.truncated ? " or more" : ""} changed</strong> <${Lines} ...${list} />`}
    ${isActive && html` <span class="dim">A run is active. These are the changes as of ${at}.</span>`}
  </p>`;
}

/** Why there is nothing to show. */
function Empty({ state, list }) {
  const hasNone = list.from_checkpoint === null;
  const [failure, setFailure] = useState(null);
  useEffect(() => {
    if (hasNone) lastFailure(state.id).then(setFailure, () => {});
  }, [hasNone]);
  return html`<div class="changes-empty">
    <h2>No changes</h2>
    <p>${reasonOf(list, state.session.value, failure)}</p>
    ${list.not_covered.items.length > 0 && html`<p class="dim">Files that checkpoints don't cover aren't compared.</p>`}
  </div>`;
}

function reasonOf({ from_checkpoint: from, to_checkpoint: to }, { status, outcome }, failure) {
  if (from !== null) {
    return from === to ? "This compares a checkpoint with itself." : "The files are the same on both sides.";
  }
  if (failure) return `No checkpoint could be taken, so there is nothing to compare with: ${plainLine(failure.detail)}`;
  if (status === "idle" && outcome === null) {
    return "The session has not run yet. The first checkpoint is taken when a run starts.";
  }
  return "There is no checkpoint to compare with yet.";
}

/** The newest checkpoint that failed, or null. */
async function lastFailure(id) {
  const page = await get(`${sessionPath(id, "log")}?types=checkpoint.failed&order=desc&limit=1`);
  return page.items[0]?.data ?? null;
}

const REASONS = {
  ignored: "Ignored by .gitignore",
  too_large: "Too large",
  cache: "Caches and dependencies",
  git: "Git's own data",
  internal: "Palimpsest's own files",
  unreadable: "Can't be read",
  secret: "Contains a secret",
};

function NotCovered({ uncovered: { items, truncated } }) {
  if (items.length === 0) return null;
  const groups = Map.groupBy(items, ({ reason }) => reason);
  return html`<details class="not-covered">
    <summary>Not covered by checkpoints (${count(items.length)}${truncated ? " or more" : ""})</summary>
    <p class="dim">These are not compared, not in the patch, and a restore leaves them as they are.</p>
    ${[...groups].map(
      ([reason, paths]) => html`<h3 key=${reason}>${REASONS[reason] ?? reason}</h3>
        <ul>
          ${paths.map(({ path }) => html`<li key=${path}><code><bdi>${shownPath(path)}</bdi></code></li>`)}
        </ul>`,
    )}
    ${truncated && html`<p class="dim">There are more.</p>`}
  </details>`;
}
