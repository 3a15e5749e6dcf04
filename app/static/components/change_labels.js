/** The names of changes and checkpoints on the page. */

import { clock, count, day, visible } from "../core/format.js";
import { serverNow } from "../core/http.js";
import { html } from "../core/ui.js";

/** The kind of badge for each status. */
export const STATUS_KINDS = { added: "good", modified: "running", deleted: "bad", renamed: "waiting" };

/** A path on one line, with every control character visible: names come from the agent. */
export const shownPath = (path) => visible(path).replaceAll("\n", "␊").replaceAll("\t", "␉");

/** "3 files". */
export const files = (number) => `${count(number)} ${number === 1 ? "file" : "files"}`;

/** Counts of lines, as "+10 −2"; without the ones that are zero. */
export function Lines({ additions, deletions }) {
  if (additions + deletions === 0) return null;
  return html`<span class="lines numbers">
    ${additions > 0 &&
    html`<span class="lines-added">+${count(additions)}<span class="hidden"> ${lines(additions)} added</span></span>`}${" "}
    ${deletions > 0 &&
    html`<span class="lines-removed">−${count(deletions)}<span class="hidden"> ${lines(deletions)} removed</span></span>`}
  </span>`;
}

const lines = (number) => (number === 1 ? "line" : "lines");

/** The path of a changed file, with the one that it had before. */
export function Path({ item: { path, old_path: old } }) {
  if (old === null) return html`<bdi>${shownPath(path)}</bdi>`;
  return html`<bdi class="dim">${shownPath(old)}</bdi> → <bdi>${shownPath(path)}</bdi>`;
}

const MOMENTS = { run_started: "started", run_ended: "ended" };

/** A checkpoint's name: "Run 2 ended, 10:11:12", with the date unless it is today's. */
export function checkpointName({ run, reason, at }) {
  const moment = reason === "before_restore" ? "Before a restore" : `Run ${count(run)} ${MOMENTS[reason]}`;
  const isToday = new Date(at).toDateString() === new Date(serverNow()).toDateString();
  return `${moment}, ${isToday ? clock(at) : day(at)}`;
}
