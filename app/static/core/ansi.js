/** Colors of terminal output as ranges of its text; all other codes are removed. */

import { ANSI, plain } from "./format.js";

const SELECT = /^\u001b\[([\d;:]*)m$/;
const NAMES = ["gray", "red", "green", "yellow", "blue", "magenta", "cyan", null];
/** Attributes by the code that sets them, and the codes that reset each. */
const ATTRIBUTES = { 1: "bold", 2: "faint", 3: "italic", 4: "underline" };
const RESETS = { 22: ["bold", "faint"], 23: ["italic"], 24: ["underline"] };
/** Output with more ranges stays uncolored from there on. */
const MOST = 20_000;

/** `{text, tokens}`: the text as `plain` returns it, and its colored ranges `{start, end, scope}` in order, where the
 * scope is a list of CSS classes. Backgrounds and concealed text are ignored, so that nothing can be hidden. */
export function withColors(raw) {
  if (!raw.includes("\u001b[")) return { text: plain(raw), tokens: [] };
  const tokens = [];
  let [text, style, place] = ["", {}, 0];
  const add = (piece) => {
    const start = text.length;
    text += plain(piece);
    const scope = classesOf(style);
    if (scope && text.length > start && tokens.length < MOST) tokens.push({ start, end: text.length, scope });
  };
  // A code may stand between the two characters of a line end.
  const source = raw.replace(/\r(?=(?:\u001b\[[\d;:]*m)*\n)/g, "");
  for (const { 0: code, index } of source.matchAll(ANSI)) {
    add(source.slice(place, index));
    place = index + code.length;
    const [, numbers] = SELECT.exec(code) ?? [];
    if (numbers !== undefined) style = changed(style, numbers.split(/[;:]/).map(Number));
  }
  add(source.slice(place));
  return { text, tokens };
}

function classesOf({ color, ...attributes }) {
  const names = [color, ...Object.keys(attributes).filter((name) => attributes[name])].filter(Boolean);
  return names.map((name) => `ansi-${name}`).join(" ");
}

function changed(before, codes) {
  let style = before;
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (code === 0) style = {};
    else if (ATTRIBUTES[code]) style = { ...style, [ATTRIBUTES[code]]: true };
    else if (RESETS[code]) style = { ...style, ...Object.fromEntries(RESETS[code].map((name) => [name, false])) };
    else if (code === 39) style = { ...style, color: null };
    else if (code >= 30 && code <= 37) style = { ...style, color: NAMES[code - 30] };
    else if (code >= 90 && code <= 97) style = { ...style, color: NAMES[code - 90] };
    else if (code === 38 || code === 48) {
      const isPalette = codes[at + 1] === 5;
      const color = isPalette ? indexed(codes[at + 2]) : named(codes.slice(at + 2, at + 5));
      if (code === 38) style = { ...style, color };
      at += isPalette ? 2 : 4;
    }
  }
  return style;
}

/** The color of the 256-color palette: 16 named ones, a cube of 6 × 6 × 6, and grays. */
function indexed(number) {
  if (!(number < 232)) return "gray";
  if (number < 16) return NAMES[number % 8];
  const cube = number - 16;
  return named([Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map((level) => level * 51));
}

/** The named color closest in hue, since only those are readable on both backgrounds. */
function named([red = 0, green = 0, blue = 0]) {
  const [low, high] = [Math.min(red, green, blue), Math.max(red, green, blue)];
  if (high - low < 48) return high > 160 ? null : "gray";
  const isOn = (level) => (level > (low + high) / 2 ? 1 : 0);
  return NAMES[isOn(red) + 2 * isOn(green) + 4 * isOn(blue)];
}
