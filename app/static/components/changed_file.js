/** A changed file: its status, its counts, and its diff when opened. */

import { html, useEffect, useMemo } from "../core/ui.js";
import { diffOf, MOST_LINES } from "../core/patch.js";
import { count } from "../core/format.js";
import { Badge, Failure } from "./basic.js";
import { Lines, Path, shownPath, STATUS_KINDS } from "./change_labels.js";
import { DiffRows } from "./diff_rows.js";

/** `index` is the file's place in the list; `changes` are the session's (state/changes.js). */
export function ChangedFile({ changes, item, index, isOpen }) {
  const toggle = () => changes.open(item.path, !isOpen);
  return html`<section class="change" aria-label=${shownPath(item.path)}>
    <h3>
      <button type="button" class="plain change-head" aria-expanded=${isOpen} onClick=${toggle}>
        <span class="fold-mark" aria-hidden="true">${isOpen ? "▾" : "▸"}</span>
        <span class="change-path mono"><${Path} item=${item} /></span>
        <${Badge} kind=${STATUS_KINDS[item.status]}>${item.status}<//>
        ${item.binary ? html`<span class="dim">binary</span>` : html`<${Lines} ...${item} />`}
      </button>
    </h3>
    ${isOpen && html`<${Body} changes=${changes} item=${item} index=${index} />`}
  </section>`;
}

function Body({ changes, item, index }) {
  if (item.binary) return html`<p class="change-note">A binary file. Its content is in the patch, but not shown here.</p>`;
  return html`<${Diff} changes=${changes} item=${item} index=${index} />`;
}

function Diff({ changes, item, index }) {
  const patch = changes.patch.value;
  useEffect(() => {
    if (patch === null) changes.loadPatch();
  }, [patch]);
  if (patch === null) return html`<p class="change-note" aria-busy="true">Loading…</p>`;
  if (patch.problem) return html`<${Failure} problem=${patch.problem} onRetry=${() => retry(changes)} />`;
  const part = patch.parts[index];
  if (part === undefined) {
    return html`<p class="change-note">The patch is too large to show this file. Download it to see all changes.</p>`;
  }
  return html`<${Shown} part=${part} item=${item} />`;
}

/** The list is loaded again too: the workspace may have changed since. */
async function retry(changes) {
  await changes.refresh();
  await changes.loadPatch();
}

function Shown({ part, item }) {
  const diff = useMemo(() => diffOf(part), [part]);
  const facts = diff.lines.length ? diff.facts : [...diff.facts, withoutLines(item)];
  return html`${facts.map((fact) => html`<p key=${fact} class="change-note">${fact}</p>`)}
    ${diff.lines.length > 0 && html`<${DiffRows} diff=${diff} path=${item.path} />`}
    ${diff.isFull &&
    html`<p class="change-note">Showing the first ${count(MOST_LINES)} lines. Download the patch to see the rest.</p>`}`;
}

/** Why a file without changed lines is in the list. */
function withoutLines({ status }) {
  if (status === "renamed") return "Renamed without other changes.";
  return status === "modified" ? "No lines changed." : "The file is empty.";
}
