/** Markdown as elements. It comes from models and their tools, so HTML is shown as text, images are links, and links
 * may only use http, https and mailto. */

import { Code } from "./highlight.js";
import { inBlocks } from "./long_text.js";
import { plain, plainLine } from "../core/format.js";
import { BoundedWorker } from "../core/in_worker.js";
import { h, html, signal, useEffect, useLayoutEffect, useState } from "../core/ui.js";

/** The module that parses; null until it is loaded. It is loaded with the first session: evaluating it takes 13 ms. */
let parser = null;
/** Whether loading it has ended; if it failed, texts are shown as they are. */
export const isMarkdownLoaded = signal(false);

export async function loadMarkdown() {
  try {
    parser ??= await import("../core/markdown.js");
  } catch (error) {
    console.error(error);
  }
  isMarkdownLoaded.value = true;
}

/** How many parsed texts are kept for rows that scroll out of view and back. */
const KEPT = 150;
const parsed = new Map();
/** Separate from the worker for code: text does not wait for highlighting. */
const worker = new BoundedWorker();
/** Elements by their block or list of blocks, so that unchanged blocks are not rendered again. */
const drawn = new WeakMap();

/** A Markdown text. `id` identifies the text while it grows; it is complete when `isWhole`. */
export function Markdown(props) {
  return parser ? html`<${Parsed} ...${props} />` : html`<div class="prose as-is">${plain(props.text)}</div>`;
}

function Parsed({ id, text, isWhole }) {
  const [, again] = useState(0);
  const { markdown, arrived } = parsedOf(id);
  arrived.value; // subscribes to texts parsed by the worker
  const began = performance.now();
  const wait = markdown.update(text, isWhole);
  useLayoutEffect(() => {
    if (wait === 0) markdown.spent(performance.now() - began);
  });
  useEffect(() => {
    if (wait === 0 || wait === Infinity) return undefined;
    const timer = setTimeout(() => again((count) => count + 1), wait);
    return () => clearTimeout(timer);
  });
  const { groups, tail } = markdown;
  return html`<div class="prose" dir="auto">
    ${groups.map((group, place) =>
      once(group, () => html`<div key=${place} class="prose-group">${group.map(block)}</div>`),
    )}
    <div key="tail" class="prose-group">${tail.map(block)}</div>
  </div>`;
}

function parsedOf(id) {
  const held = parsed.get(id) ?? newEntry();
  parsed.delete(id);
  parsed.set(id, held);
  if (parsed.size > KEPT) parsed.delete(parsed.keys().next().value);
  return held;
}

function newEntry() {
  const arrived = signal(0);
  const elsewhere = async (text, take) => {
    take(await worker.run("blocks", text));
    arrived.value += 1;
  };
  return { markdown: new parser.GrowingMarkdown(elsewhere), arrived };
}

function once(key, draw) {
  if (!drawn.has(key)) drawn.set(key, draw());
  return drawn.get(key);
}

const block = (token) => once(token, () => BLOCKS[token.type]?.(token) ?? null);
const blocks = (tokens) => tokens.map((token) => BLOCKS[token.type]?.(token) ?? inline(token));
const inlines = (tokens) => tokens.map(inline);

const BLOCKS = {
  space: () => null,
  heading: ({ depth, tokens }) => h(`h${Math.min(6, depth + 2)}`, { dir: "auto" }, inlines(tokens)),
  paragraph: ({ tokens }) => html`<p dir="auto">${inlines(tokens)}</p>`,
  blockquote: ({ tokens }) => html`<blockquote>${blocks(tokens)}</blockquote>`,
  hr: () => html`<hr />`,
  list,
  table,
  code: ({ text, lang, isOpen }) =>
    html`<${Code} text=${text} language=${(lang ?? "").split(/\s/)[0]} isOpen=${isOpen} />`,
  html: ({ text }) => html`<p class="as-is">${plain(text.trimEnd())}</p>`,
  plain: ({ text }) =>
    inBlocks(plain(text)).map((piece, place) => html`<div key=${place} class="as-is block">${piece}</div>`),
};

function list({ ordered, start, items }) {
  const children = items.map(({ task, checked, tokens }, place) => {
    const box = html`<input type="checkbox" disabled checked=${checked} aria-label=${checked ? "done" : "to do"} />`;
    return html`<li key=${place} class=${task ? "task" : ""} dir="auto">
      ${task && box}${blocks(tokens.filter(({ type }) => type !== "checkbox"))}
    </li>`;
  });
  return ordered ? html`<ol start=${Number(start) || 1}>${children}</ol>` : html`<ul>${children}</ul>`;
}

function table({ header, rows }) {
  const cell = (tag, { tokens, align }) => h(tag, { class: align ? `align-${align}` : "" }, inlines(tokens));
  return html`<div class="scroll-x" tabindex="0" role="region" aria-label="Table">
    <table>
      <thead>
        <tr>${header.map((item) => cell("th", item))}</tr>
      </thead>
      <tbody>${rows.map((row) => html`<tr>${row.map((item) => cell("td", item))}</tr>`)}</tbody>
    </table>
  </div>`;
}

const INLINES = {
  strong: ({ tokens }) => html`<strong>${inlines(tokens)}</strong>`,
  em: ({ tokens }) => html`<em>${inlines(tokens)}</em>`,
  del: ({ tokens }) => html`<del>${inlines(tokens)}</del>`,
  codespan: ({ text }) => html`<code>${plain(text)}</code>`,
  br: () => html`<br />`,
  link: ({ href, tokens }) => link(href, inlines(tokens)),
  image: ({ href, text }) => link(href, `image: ${text ? `${plainLine(text)} ` : ""}(${plainLine(href)})`),
  escape: ({ text }) => plain(text),
  checkbox: () => null,
};

/** A link with its address as the tooltip; only its text and address if the address may not be a link. */
function link(address, content) {
  const shown = plainLine(address);
  if (!parser.safeAddress(address)) return html`<span>${content} <span class="dim">(${shown})</span></span>`;
  return html`<a href=${address} title=${shown} target="_blank" rel="noreferrer noopener">${content}</a>`;
}

function inline(token) {
  const draw = INLINES[token.type];
  if (draw) return draw(token);
  // Text in a list item has its own tokens; HTML and token types unknown here are shown as they are.
  if (token.type === "text" && token.tokens) return inlines(token.tokens);
  return plain(token.type === "text" && !token.literal ? parser.unescaped(token.text) : (token.text ?? token.raw));
}
