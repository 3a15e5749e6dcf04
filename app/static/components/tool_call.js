/** One tool call: a line with what it did and its status, which expands to its arguments and result. */

import { Badge } from "./basic.js";
import { CallArguments } from "./call_arguments.js";
import { Diff } from "./diff.js";
import { Fold } from "./fold.js";
import { Code, languageOf } from "./highlight.js";
import { LongText } from "./long_text.js";
import { LiveOutput, Output } from "./output.js";
import { callStatus, callWords, writtenWords } from "./tool_labels.js";
import { bytes, duration, plain } from "../core/format.js";
import { html } from "../core/ui.js";

/** Longer file contents, in characters, are shown without highlighting. */
const LONGEST_CODE = 20_000;

export function ToolCall({ state, part }) {
  const result = part.open ? null : state.transcript.result(part.call_id).value;
  const status = callStatus(part, result, state);
  const words = part.open ? writtenWords(part) : callWords(part);
  const head = html`<span class="call-verb">${words.verb}</span>
    <span class="call-argument mono">${words.argument}</span>
    ${words.more && html`<span class="dim call-more">${words.more}</span>`}
    <span class="call-end">
      ${result && html`<span class="dim numbers">${measures(result)}</span>`}
      <${Badge} kind=${status.kind}>${status.word}<//>
    </span>`;
  return html`<div class="call" data-call-id=${part.call_id} data-status=${result?.status ?? status.word}>
    <${Fold} id=${part.call_id ?? part.id} head=${head} kind="tool">
      ${() => html`<${Opened} state=${state} part=${part} result=${result} />`}
    <//>
    ${!result && !part.open && html`<${LiveOutput} state=${state} callId=${part.call_id} />`}
  </div>`;
}

function measures({ duration_ms: time, bytes: size, images, compacted_at: pruned }) {
  const facts = [
    images?.length > 0 && (images.length === 1 ? "1 image" : `${images.length} images`),
    size > 0 && bytes(size),
    time > 0 && duration(time),
    pruned && "cleared from the context",
  ];
  return facts.filter(Boolean).join(" · ");
}

function Opened({ state, part, result }) {
  return html`${part.open
      ? html`<${LongText} label="Arguments" text=${plain(part.written)} />`
      : html`<${Arguments} name=${part.name} args=${part.arguments} />`}
    ${result && html`<${Output} state=${state} result=${result} />`}`;
}

function Arguments({ name, args }) {
  const draw = typeof args === "object" && args !== null && Object.hasOwn(SHOWN, name) ? SHOWN[name](args) : null;
  return draw ?? html`<${CallArguments} name=${name} args=${args ?? {}} />`;
}

/** Renderers for the arguments of some tools; they return null if the arguments are not as expected. */
const SHOWN = {
  execute_command: ({ command, timeout_s: timeout, ...others }) => {
    if (typeof command !== "string" || Object.keys(others).length) return null;
    return html`<${FileText} text=${command} language="bash" label="Command" />
      ${timeout != null && html`<p class="dim">Timeout: ${duration(Number(timeout) * 1000)}</p>`}`;
  },
  write_file: ({ path, content, ...others }) => {
    if (typeof path !== "string" || typeof content !== "string" || Object.keys(others).length) return null;
    return html`<p class="mono">${plain(path)}</p>
      <${FileText} text=${content} language=${languageOf(path)} label="Content" />`;
  },
  edit_file: ({ path, old_text: before, new_text: after, ...others }) => {
    if (typeof path !== "string" || typeof before !== "string" || typeof after !== "string") return null;
    if (Object.keys(others).length) return null;
    return html`<p class="mono">${plain(path)}</p>
      <${Diff} before=${before} after=${after} />`;
  },
};

function FileText({ text, language, label }) {
  if (text.length > LONGEST_CODE) return html`<${LongText} label=${label} text=${plain(text)} />`;
  return html`<div class="file-text" tabindex="0" role="region" aria-label=${label}>
    <${Code} text=${text} language=${language} />
  </div>`;
}
