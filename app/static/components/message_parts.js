/** A message's parts as plain text, as sent or as stored. */

import { bytes, count, duration, plain, plainLine } from "../core/format.js";
import { html } from "../core/ui.js";
import { imageName, MessageImage } from "./images.js";
import { LongText } from "./long_text.js";
import { toolName } from "./tool_labels.js";

/** Maximum characters of a message's preview. */
const PREVIEW = 240;

/** A one-line preview of a message. */
export function preview({ parts }) {
  const line = parts.map(shortly).filter(Boolean).join(" · ");
  return plainLine(line.slice(0, PREVIEW)).trim() || "(empty)";
}

function shortly(part) {
  const { type } = part;
  if (type === "text") return part.text.slice(0, PREVIEW);
  if (type === "reasoning") return "(reasoning)";
  if (type === "tool_call") return `→ ${toolName(part.name)} ${argumentsText(part).slice(0, PREVIEW)}`;
  if (type === "tool_result") return part.output.slice(0, PREVIEW) || "(no output)";
  if (type === "image") return `[${imageName(part)}]`;
  return "";
}

function argumentsText({ arguments: args }, indent) {
  return typeof args === "string" ? args : JSON.stringify(args, null, indent);
}

/** All parts, each in a box that scrolls. */
export function MessageParts({ sessionId, message }) {
  if (message.parts.length === 0) return html`<p class="dim">This message has no parts.</p>`;
  return html`<div class="cx-parts">
    ${message.parts.map((part) => html`<${Part} key=${part.id} sessionId=${sessionId} part=${part} />`)}
  </div>`;
}

function Part({ sessionId, part }) {
  const { type } = part;
  if (type === "text") return html`<${LongText} label="Text" text=${plain(part.text)} />`;
  if (type === "reasoning") return html`<${Named} name="Reasoning" text=${part.text} />`;
  if (type === "tool_call") return html`<${Named} name=${callName(part)} text=${argumentsText(part, 2)} />`;
  if (type === "tool_result") return html`<${Named} name=${resultName(part)} text=${part.output} />`;
  if (type === "image") return html`<${MessageImage} sessionId=${sessionId} part=${part} />`;
  return html`<p class="dim">Compaction ${part.round} starts here.</p>`;
}

const callName = ({ name }) => `Call to ${toolName(name)}`;

function Named({ name, text }) {
  const label = plainLine(name);
  return html`<div class="cx-part">
    <p class="dim">${label}</p>
    ${text && html`<${LongText} label=${label} text=${plain(text)} />`}
  </div>`;
}

function resultName({ name, status, exit_code: code, bytes: size, duration_ms: took, original_tokens: tokens }) {
  const facts = [
    `Result of ${toolName(name)}: ${status}`,
    code != null && `exit code ${code}`,
    bytes(size),
    duration(took),
    tokens != null && `originally ${count(tokens)} tokens`,
  ];
  return facts.filter(Boolean).join(", ");
}
