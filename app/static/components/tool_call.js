/** One tool call: a line with what it did, which expands to its arguments and result. A change of a file also shows its
 * diff, a running call the end of its output, and a failed one keeps it. */

import { Badge } from "./basic.js";
import { CallArguments } from "./call_arguments.js";
import { DiffCount, EditDiff, useEditDiff } from "./edit_diff.js";
import { Fold } from "./fold.js";
import { Code } from "./highlight.js";
import { Icon } from "./icon.js";
import { LongText } from "./long_text.js";
import { LiveOutput, Output, Tail } from "./output.js";
import { callStatus, callWords, iconOf, writtenWords } from "./tool_labels.js";
import { duration, plain } from "../core/format.js";
import { html } from "../core/ui.js";

/** Longer commands, in characters, are shown without highlighting. */
const LONGEST_CODE = 20_000;

export function ToolCall({ state, part }) {
  const result = part.open ? null : state.transcript.result(part.call_id).value;
  const status = callStatus(part, result, state);
  const diff = useEditDiff(part, result);
  const words = part.open ? writtenWords(part) : callWords(part);
  const head = html`<${Icon} name=${iconOf(part.name)} />
    <span class="call-verb">${words.verb}</span>
    <span class="call-argument mono">${words.argument}</span>
    ${words.more && html`<span class="dim call-more">${words.more}</span>`}
    ${diff && html`<span class="call-more"><${DiffCount} diff=${diff} /></span>`}
    <span class="call-end">
      ${result && html`<span class="dim numbers">${measures(result)}</span>`}
      ${status.kind === "good"
        ? html`<span class="hidden">${status.word}</span>`
        : html`<${Badge} kind=${status.kind}>${status.word}<//>`}
    </span>`;
  const data = { "data-call-id": part.call_id, "data-status": result?.status ?? status.word };
  return html`<div class="call ${status.kind}" ...${data}>
    <${Fold} id=${part.call_id ?? part.id} head=${head} kind="tool">
      ${() => html`<${Opened} state=${state} part=${part} result=${result} hasDiff=${diff !== null} />`}
    <//>
    ${diff && html`<${EditDiff} diff=${diff} path=${part.arguments.path} callId=${part.call_id} />`}
    ${!result && !part.open && html`<${LiveOutput} state=${state} callId=${part.call_id} />`}
    ${status.kind === "bad" && html`<${Tail} label="End of the output" output=${result.output} />`}
  </div>`;
}

function measures({ duration_ms: time, images, compacted_at: pruned }) {
  const facts = [
    images?.length > 0 && (images.length === 1 ? "1 image" : `${images.length} images`),
    time > 0 && duration(time),
    pruned && "cleared from the context",
  ];
  return facts.filter(Boolean).join(" · ");
}

function Opened({ state, part, result, hasDiff }) {
  if (part.open) return html`<${LongText} label="Arguments" text=${plain(part.written)} />`;
  return html`${!hasDiff && html`<${Arguments} name=${part.name} args=${part.arguments ?? {}} />`}
    ${result && html`<${Output} state=${state} result=${result} />`}`;
}

function Arguments({ name, args }) {
  if (name === "execute_command" && typeof args.command === "string") {
    const { command, timeout_s: timeout, ...others } = args;
    if (Object.keys(others).length === 0) return html`<${Command} text=${command} timeout=${timeout} />`;
  }
  return html`<${CallArguments} name=${name} args=${args} />`;
}

function Command({ text, timeout }) {
  return html`${text.length > LONGEST_CODE
      ? html`<${LongText} label="Command" text=${plain(text)} />`
      : html`<div class="file-text" tabindex="0" role="region" aria-label="Command">
          <${Code} text=${text} language="bash" />
        </div>`}
    ${timeout != null && html`<p class="dim">Timeout: ${duration(Number(timeout) * 1000)}</p>`}`;
}
