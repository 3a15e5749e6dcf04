/** Markdown as tokens of marked, for texts that grow while they are read and may be hostile.
 *
 * Only tokens are taken from marked, never its HTML. A growing text is parsed from where it may still change:
 * everything before its last two blocks is settled.
 */

import { Lexer } from "../vendor/marked.js";

const OPTIONS = { gfm: true, breaks: false };
/** Longer texts are shown as plain text: laying them out would block the page for a second. */
export const LONGEST = 200_000;
/** Longer blocks other than code, such as a list of a thousand items, are shown as plain text too. */
const LONGEST_BLOCK = 50_000;
/** Longer paragraphs are shown as plain text: for some, parsing time is quadratic. */
const LONGEST_INLINE = 10_000;
/** Blocks nested deeper are shown as plain text: drawing them would overflow the stack. */
const DEEPEST = 100;
/** Number of settled blocks that are drawn together. */
const GROUP = 40;
/** Parsing and drawing take at most this share of the time while a text grows. */
const SHARE = 1 / 6;
/** Longer texts, in characters, are parsed by the worker if there is one: some of this length take 100 ms. */
const ON_PAGE = 2_000;
/** A fence at the beginning of a line. */
const FENCE = /^ {0,3}(`{3,}|~{3,})/;

/** Parses a complete text into blocks: marked's tokens. */
export function blocksOf(text) {
  if (text.length > LONGEST) return [plainBlock(text)];
  return lex(text.replace(/\r\n?/g, "\n")).map((block) => (canBeDrawn(block) ? block : plainBlock(block.raw)));
}

const canBeDrawn = (block) => (block.type === "code" || block.raw.length <= LONGEST_BLOCK) && !isDeeper(block, DEEPEST);

function isDeeper({ tokens = [], items = [], header = [], rows = [] }, levels) {
  return levels === 0 || [tokens, items, header, ...rows].flat().some((inner) => isDeeper(inner, levels - 1));
}

function lex(source) {
  const lexer = new Lexer(OPTIONS);
  try {
    lexer.blockTokens(source, lexer.tokens);
    for (const { src, tokens } of lexer.inlineQueue) {
      if (src.length > LONGEST_INLINE) tokens.push({ type: "text", raw: src, text: src, literal: true });
      else lexer.inlineTokens(src, tokens);
    }
    return [...lexer.tokens];
  } catch {
    // Quotes and lists nested thousands deep overflow marked's recursion.
    return [plainBlock(source)];
  }
}

const plainBlock = (text) => ({ type: "plain", raw: text, text });

/** A growing text. `groups` are lists of settled blocks, which never change, and `tail` the blocks after them. */
export class GrowingMarkdown {
  groups = [];
  tail = [];
  /** Settled blocks that do not fill a group yet. */
  #recent = [];
  #text = null;
  #isWhole = false;
  /** Where parsing starts again: the end of the settled text. */
  #settled = 0;
  #cost = 0;
  #parsedAt = 0;
  #elsewhere;
  #isAway = false;
  /** Whether the unsettled text took too long elsewhere. */
  #isTooHard = false;

  /** `elsewhere(text, take)` calls `take` once, later, with the `blocksOf` a long text, or with null if that took too
   * long; updates are deferred until then. Without it, texts of any length are parsed at once. */
  constructor(elsewhere = null) {
    this.#elsewhere = elsewhere;
  }

  /** Updates the blocks; `isWhole` means that the text is complete. Returns the time in ms after which to call again if
   * parsing was deferred to keep the page responsive, Infinity until `elsewhere` is done, and otherwise 0. */
  update(text, isWhole, now = performance.now()) {
    if (text === this.#text && isWhole === this.#isWhole) return 0;
    if (this.#isAway) return Infinity;
    const wait = this.#parsedAt + this.#cost / SHARE - now;
    if (!isWhole && wait > 0) return wait;
    this.#parse(text, isWhole);
    this.#parsedAt = now;
    return 0;
  }

  /** Records how long the last update took including drawing, in ms. */
  spent(time) {
    this.#cost = time;
  }

  #parse(text, isWhole) {
    const isAll = isWhole || text.length > LONGEST;
    const isFirst = this.#text === null;
    const grows = !isAll && !isFirst && !this.#isWhole && text.startsWith(this.#text);
    this.#text = text;
    this.#isWhole = isWhole;
    if (!grows) this.#isTooHard = false;
    const begin = grows ? this.#settled : 0;
    const rest = isAll ? text : copied(text.slice(begin)).replace(/\r\n?/g, "\n");
    const open = isAll ? null : openFence(rest);
    if (open) this.#take(open, rest, begin);
    else if (this.#isTooHard) this.#take([plainBlock(rest)], rest, begin);
    else if (!this.#elsewhere || rest.length <= ON_PAGE || text.length > LONGEST) {
      this.#take(blocksOf(rest), rest, begin);
    } else {
      if (isFirst) this.tail = [plainBlock(rest)];
      this.#send(rest, begin);
    }
  }

  #send(rest, begin) {
    this.#isAway = true;
    this.#elsewhere(rest, (blocks) => {
      this.#isAway = false;
      this.#isTooHard = blocks === null;
      this.#take(blocks ?? [plainBlock(rest)], rest, begin);
    });
  }

  /** Replaces the blocks of the text from `begin` on. */
  #take(blocks, rest, begin) {
    if (begin === 0) {
      this.groups = [];
      this.#recent = [];
      this.#settled = 0;
    }
    const open = [...blocks];
    const first = this.#isWhole ? open.length : firstOpen(open);
    const left = open.slice(first).map(({ raw }) => raw).join("");
    // Parsing drops carriage returns, so offsets differ: the text settles only where the rest has none.
    if (first > 0 && rest.endsWith(left) && this.#text.endsWith(left)) {
      this.#settled = this.#text.length - left.length;
      this.#settle(open.splice(0, first));
    }
    this.tail = [...this.#recent, ...open];
  }

  #settle(blocks) {
    this.#recent = [...this.#recent, ...blocks];
    while (this.#recent.length >= GROUP) this.groups = [...this.groups, this.#recent.splice(0, GROUP)];
  }
}

const ENCODER = new TextEncoder();
const DECODER = new TextDecoder("utf-8", { ignoreBOM: true });

/** Copies a text. Browsers store a slice as a reference into the whole text, so each settled block would keep alive all
 * the text there was when it was parsed. */
const copied = (text) => DECODER.decode(ENCODER.encode(text));

/** The index of the first block that more text may still change: the last but one. */
function firstOpen(blocks) {
  let left = 2;
  let first = blocks.length;
  while (first > 0 && left > 0) {
    first -= 1;
    if (blocks[first].type !== "space") left -= 1;
  }
  return first;
}

/** An unclosed code block at the beginning of the rest; it needs no parser. */
function openFence(rest) {
  const end = rest.indexOf("\n");
  const [head, fence] = FENCE.exec(rest) ?? [];
  if (!head || end < 0) return null;
  const info = rest.slice(head.length, end).trim();
  const closing = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*$`, "m");
  const text = rest.slice(end + 1);
  if (info.includes("`") || closing.test(text)) return null;
  return [{ type: "code", raw: rest, lang: info.split(/\s/, 1)[0], text: text.replace(/\n$/, ""), isOpen: true }];
}

/** Whether an address may be a link: http, https and mailto only. */
export function safeAddress(address) {
  try {
    const { protocol } = new URL(address);
    return ["http:", "https:", "mailto:"].includes(protocol);
  } catch {
    return false;
  }
}

const NAMED = {
  ...{ amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", reg: "®", trade: "™", deg: "°" },
  ...{ hellip: "…", mdash: "—", ndash: "–", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”", bull: "•", middot: "·" },
  ...{ times: "×", divide: "÷", plusmn: "±", larr: "←", rarr: "→", uarr: "↑", darr: "↓", le: "≤", ge: "≥", ne: "≠" },
  ...{ euro: "€", pound: "£", sect: "§", para: "¶", laquo: "«", raquo: "»", frac12: "½", infin: "∞", micro: "µ" },
};
const ENTITY = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z][a-zA-Z0-9]{1,30}));/g;

/** Resolves character references, which marked leaves in the text. Unknown names stay. */
export function unescaped(text) {
  if (!text.includes("&")) return text;
  return text.replace(ENTITY, (whole, decimal, hex, name) => {
    if (name) return Object.hasOwn(NAMED, name) ? NAMED[name] : whole;
    const code = decimal ? Number(decimal) : parseInt(hex, 16);
    return code === 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? "\ufffd" : String.fromCodePoint(code);
  });
}
