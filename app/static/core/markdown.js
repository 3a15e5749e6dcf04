/** Markdown as marked's tokens, for texts that grow while they are read, and that may be hostile.
 *
 * Only tokens are taken from marked, never its HTML. A text that grows is parsed from where it may still change: what
 * is two blocks before its end is settled.
 */

import { Lexer } from "../vendor/marked.js";

const OPTIONS = { gfm: true, breaks: false };
/** Longer texts are shown as they are: to lay them out would stop the page for a second. */
export const LONGEST = 300_000;
/** Longer paragraphs are shown as they are; the parser's time grows with the square of some. */
const LONGEST_INLINE = 10_000;
/** Blocks that are drawn together once they are settled. */
const GROUP = 40;
/** Parsing takes at most this share of the time while a text grows. */
const SHARE = 1 / 6;
/** A fence at the beginning of the rest that nothing has closed yet. */
const OPEN_FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n`]*\n/;

/** The blocks of a text that is all there: marked's tokens. */
export function blocksOf(text) {
  if (text.length > LONGEST) return [plainBlock(text)];
  return lex(text.replace(/\r\n?/g, "\n"));
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
    // Quotes and lists in one another, thousands deep, are more than marked's recursion takes.
    return [plainBlock(source)];
  }
}

const plainBlock = (text) => ({ type: "plain", raw: text, text });

/** A text that grows. `groups` are its settled blocks in lists that never change, `tail` the blocks that still may. */
export class GrowingMarkdown {
  groups = [];
  tail = [];
  #text = null;
  #isWhole = false;
  #settled = 0;
  #cost = 0;
  #parsedAt = 0;

  /** Brings the blocks up to date. `isWhole` says that nothing follows. Gives the time in ms after which to call again,
   * where parsing is put off so that the page stays quick; 0 where the blocks are those of the text. */
  update(text, isWhole, now = performance.now()) {
    if (text === this.#text && isWhole === this.#isWhole) return 0;
    const wait = this.#parsedAt + this.#cost / SHARE - now;
    if (!isWhole && wait > 0) return wait;
    this.#parse(text, isWhole);
    this.#cost = performance.now() - now;
    this.#parsedAt = now;
    return 0;
  }

  #parse(text, isWhole) {
    const grows = !isWhole && this.#text !== null && text.startsWith(this.#text) && text.length <= LONGEST;
    this.#text = text;
    this.#isWhole = isWhole;
    if (isWhole || !grows) {
      this.groups = [];
      this.#settled = 0;
    }
    if (isWhole || text.length > LONGEST) {
      this.tail = blocksOf(text);
      this.#group(Math.floor(this.tail.length / GROUP) * GROUP);
      return;
    }
    const rest = text.slice(this.#settled).replace(/\r\n?/g, "\n");
    this.tail = openFence(rest) ?? lex(rest);
    this.#settle(rest);
  }

  /** Takes what cannot change any more out of the tail: all but its last two blocks. */
  #settle(rest) {
    let kept = 2;
    let first = this.tail.length;
    while (first > 0 && kept > 0) {
      first -= 1;
      if (this.tail[first].type !== "space") kept -= 1;
    }
    first = Math.floor(first / GROUP) * GROUP;
    const left = this.tail.slice(first).map(({ raw }) => raw).join("");
    // A text with carriage returns is longer than what was parsed of it: it settles where none are left behind.
    if (first === 0 || !rest.endsWith(left) || !this.#text.endsWith(left)) return;
    this.#settled = this.#text.length - left.length;
    this.#group(first);
  }

  #group(end) {
    for (let start = 0; start < end; start += GROUP) this.groups = [...this.groups, this.tail.slice(start, start + GROUP)];
    this.tail = this.tail.slice(end);
  }
}

/** A code block that is still being written needs no parser. */
function openFence(rest) {
  const opened = OPEN_FENCE.exec(rest);
  if (!opened) return null;
  const [head, fence, lang] = opened;
  const closing = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*$`, "m");
  if (closing.test(rest.slice(head.length))) return null;
  return [{ type: "code", raw: rest, lang, text: rest.slice(head.length), isOpen: true }];
}

/** Whether an address may be a link: http, https and mailto may. */
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

/** Text with its character references resolved, which marked leaves to the HTML. Names that are not known stay. */
export function unescaped(text) {
  if (!text.includes("&")) return text;
  return text.replace(ENTITY, (whole, decimal, hex, name) => {
    if (name) return Object.hasOwn(NAMED, name) ? NAMED[name] : whole;
    const code = decimal ? Number(decimal) : parseInt(hex, 16);
    return code === 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? "\ufffd" : String.fromCodePoint(code);
  });
}
