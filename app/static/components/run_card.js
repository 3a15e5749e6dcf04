/** The end of a run in the transcript: how it ended, what it cost, what it changed, and what to do next. */

import { count, clock, dollars, duration, plainLine, visible } from "../core/format.js";
import { sessionLink } from "../core/router.js";
import { html, useEffect, useState } from "../core/ui.js";
import { changesOf, changesPath } from "../state/changes.js";
import { checkpointsOf } from "../state/run_ends.js";
import { Badge, exactly, outcomeKind } from "./basic.js";
import { files, Lines, Path, STATUS_KINDS } from "./change_labels.js";
import { ForkDialog } from "./fork_dialog.js";
import { Code } from "./highlight.js";
import { LongText } from "./long_text.js";
import { Markdown } from "./markdown.js";

/** Files listed in the card. */
const LISTED = 5;
/** Longer output, in characters, is shown without highlighting, in a box that scrolls. */
const LONGEST = 2_000;

/** `end` is an item of state/run_ends.js; `isLatest` if no run has followed, and `hasAnswer` if the message before it
 * is the run's answer. */
export function RunCard({ state, end, isLatest, hasAnswer }) {
  const changed = useChanged(state, end, isLatest);
  const isIdle = isLatest && state.session.value?.status === "idle";
  return html`<header class="row-head">
      <h2>Run ended</h2>
      <time class="dim numbers" ...${exactly(end.at)}>${clock(end.at)}</time>
    </header>
    <div class="row-body run-card">
      <p class="run-facts">
        <${Badge} kind=${outcomeKind(end.outcome)}>${end.outcome.replace("_", " ")}<//>
        ${factsOf(end).map((fact) => html`<span key=${fact} class="numbers">${fact}</span>`)}
        <${Changed} ...${changed} failure=${end.failure} />
      </p>
      <${Problem} end=${end} isIdle=${isIdle} />
      ${end.answer && !hasAnswer && html`<${Markdown} id=${`answer-${end.seq}`} text=${end.answer} isWhole=${true} />`}
      ${end.output != null && html`<${Output} output=${end.output} />`}
      ${changed.list?.items.length > 0 && html`<${Files} list=${changed.list} />`}
      <${Ways} ...${{ state, changed, isIdle }} />
    </div>`;
}

function factsOf({ steps, startedAt, at, usage }) {
  const took = startedAt === null ? null : Date.parse(at) - Date.parse(startedAt);
  const cost = usage.cost_usd ? dollars(usage.cost_usd) : null;
  return [`${count(steps)} ${steps === 1 ? "step" : "steps"}`, took !== null && duration(took), cost].filter(Boolean);
}

/** The run's changes: `{begin, end, list}` with the ids of its checkpoints. Only those of the latest run are loaded;
 * others appear once the changes view has loaded them. */
function useChanged(state, end, isLatest) {
  const changes = changesOf(state);
  const checkpoints = changes.checkpoints.value;
  useEffect(() => {
    // Again for each new run, which has new checkpoints.
    if (isLatest || checkpoints === null) changes.findCheckpoints();
  }, [isLatest, end.seq]);
  const own = checkpointsOf(end, checkpoints ?? []);
  const isKnown = own.begin !== null && own.end !== null;
  const list = isKnown ? changes.summary(own.begin, own.end, isLatest).value : null;
  return { ...own, list };
}

function Changed({ list, failure }) {
  if (failure) return html`<span class="dim">changes unknown: ${plainLine(failure.detail)}</span>`;
  if (list === null) return null;
  if (list.items.length === 0) return html`<span>no files changed</span>`;
  return html`<span>${files(list.items.length)} changed <${Lines} ...${list} /></span>`;
}

/** What to do about errors that a resume alone does not fix, by code. */
const ADVICE = {
  output_invalid: "Check the output's schema, or resume to let the model try again.",
  missing_api_key: "Set the provider's API key, then resume.",
  clone_failed: "Check the repository's address, its ref and its credential, then resume to clone again.",
  context_too_large: "Choose a model with a larger window or fork from an earlier point, then resume.",
};
const UNFINISHED = {
  failed: "Resume to try the failed step again, or send a message to change course.",
  cancelled: "Resume to continue where the run stopped, or send a message.",
  interrupted: "Resume to continue where the run stopped, or send a message.",
};

function Problem({ end: { outcome, error }, isIdle }) {
  const advice = isIdle && (ADVICE[error?.code] ?? UNFINISHED[outcome]);
  if (!error && !advice) return null;
  return html`<div class="run-problem ${outcome}">
    ${error && html`<p><code>${plainLine(String(error.code))}</code> ${plainLine(error.detail ?? error.title ?? "")}</p>`}
    ${advice && html`<p class="dim">${advice}</p>`}
  </div>`;
}

function Output({ output }) {
  const text = JSON.stringify(output, null, 2);
  return html`<section class="run-output" aria-label="Output">
    <h3>Output</h3>
    ${text.length > LONGEST
      ? html`<${LongText} label="Output" text=${visible(text)} />`
      : html`<${Code} text=${text} language="json" />`}
  </section>`;
}

function Files({ list: { items } }) {
  return html`<ul class="run-files">
    ${items.slice(0, LISTED).map(
      (item) => html`<li key=${item.path}>
        <${Badge} kind=${STATUS_KINDS[item.status]}>${item.status}<//>${" "}
        <code><${Path} item=${item} /></code>${" "}
        ${item.binary ? html`<span class="dim">binary</span>` : html`<${Lines} ...${item} />`}
      </li>`,
    )}
    ${items.length > LISTED && html`<li class="dim">and ${count(items.length - LISTED)} more</li>`}
  </ul>`;
}

/** A fork copies the session as it is now: only the latest run offers it. */
function Ways({ state, changed: { begin, end, list }, isIdle }) {
  const [isForking, setForking] = useState(false);
  const hasChanges = begin !== null && end !== null && list?.items.length !== 0;
  const canFork = isIdle && state.session.value?.kind !== "subagent";
  if (!hasChanges && !canFork) return null;
  const show = () => changesOf(state).choose(begin, end);
  return html`<div class="run-ways">
    ${hasChanges &&
    html`<a class="button" href=${sessionLink(state.id, "changes")} onClick=${show}>Show changes</a>
      <a class="button" href=${changesPath(state.id, begin, end, "patch")} download=${`${state.id}.patch`}>
        Download patch
      </a>`}
    ${canFork && html`<button type="button" onClick=${() => setForking(true)}>Fork</button>`}
    ${isForking && html`<${ForkDialog} sessionId=${state.id} onClose=${() => setForking(false)} />`}
  </div>`;
}
