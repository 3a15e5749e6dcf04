/** The changes of `edit_file` and `write_file` as diffs, from a call's arguments and its result. Pure functions; the
 * texts are untrusted. */

import { diffLines } from "../vendor/diff/diff/line.js";
import { diffOf } from "./patch.js";

/** If diffing takes longer than this (ms), the texts are shown one after the other. */
const TIMEOUT_MS = 100;
/** Lines that `edit_file` reports before a change; fewer at the beginning of a file. */
const CONTEXT = 3;
const NUMBERED = /^ *(\d+) {2}(.*)$/;

/** The diff of a call (see core/patch.js), without line numbers if they are unknown; null if it is no edit. `output` is
 * the result's, or null. */
export function diffOfCall(name, args, output) {
  const texts = name === "edit_file" ? [args?.old_text, args?.new_text] : ["", args?.content];
  const isEdit = name === "edit_file" || name === "write_file";
  if (!isEdit || [args?.path, ...texts].some((text) => typeof text !== "string")) return null;
  const [before, after] = texts.map((text) => text.replace(/\r\n/g, "\n"));
  if (name === "write_file") return numbered("", after, 1);
  const place = placeOf(output ?? "", after);
  if (!place) return unnumbered(numbered(before, after, 1));
  const { start, above = [], prefix = "", suffix = "", below = [] } = place;
  const whole = (text) => [...above, `${prefix}${text}${suffix}`, ...below].join("\n");
  return numbered(whole(before), whole(after), start - above.length);
}

/** How many lines a diff adds and removes. */
export function changesOf({ lines }) {
  const count = (wanted) => lines.filter(({ kind }) => kind === wanted).length;
  return { additions: count("added"), deletions: count("removed") };
}

function numbered(before, after, first) {
  const ended = (text) => (text === "" || text.endsWith("\n") ? text : `${text}\n`);
  const found = diffLines(ended(before), ended(after), { timeout: TIMEOUT_MS }) ?? [
    { removed: true, value: ended(before) },
    { added: true, value: ended(after) },
  ];
  const lines = found.flatMap(({ added, removed, value }) => {
    const sign = added ? "+" : removed ? "-" : " ";
    return value.split("\n").slice(0, -1).map((line) => sign + line);
  });
  const diff = diffOf(`@@ -${first} +${first} @@\n${lines.join("\n")}`);
  return { ...diff, lines: diff.lines.filter(({ kind }) => kind !== "hunk") };
}

const unnumbered = (diff) => ({ ...diff, lines: diff.lines.map((line) => ({ ...line, old: null, new: null })) });

/** Where a new text is, by the lines that the tool reports around it: the number of its first line, and what is around
 * it if that is certain. Null if not even the number is. */
function placeOf(output, text) {
  const lines = new Map();
  for (const line of output.split("\n")) {
    const [, number, content] = NUMBERED.exec(line) ?? [];
    if (number) lines.set(Number(number), content);
  }
  const first = Math.min(...lines.keys());
  if (lines.size === 0) return null;
  const starts = first > 1 ? [first + CONTEXT] : [1, 2, 3, 4];
  const places = text === "" ? [] : starts.flatMap((start) => placesAt(lines, start, text.split("\n")));
  if (places.length === 1) return places[0];
  return first > 1 ? { start: first + CONTEXT } : null;
}

/** All places of a text, given as lines, that begins in line `start`. */
function placesAt(lines, start, parts) {
  const last = start + parts.length - 1;
  const isThere = parts.slice(1, -1).every((part, index) => (lines.get(start + 1 + index) ?? part) === part);
  const [head, end] = [lines.get(start), lines.get(last) ?? (parts.at(-1) === "" ? "" : undefined)];
  if (head === undefined || end === undefined || !isThere) return [];
  const around = (from, to) => [...lines].filter(([number]) => number >= from && number <= to).map(([, line]) => line);
  const [above, below] = [around(1, start - 1), around(last + 1, Infinity)];
  const place = (prefix, suffix) => ({ start, above, prefix, suffix, below });
  if (parts.length > 1) {
    if (!head.endsWith(parts[0]) || !end.startsWith(parts.at(-1))) return [];
    return [place(head.slice(0, head.length - parts[0].length), end.slice(parts.at(-1).length))];
  }
  const places = [];
  for (let at = head.indexOf(parts[0]); at >= 0; at = head.indexOf(parts[0], at + 1)) {
    places.push(place(head.slice(0, at), head.slice(at + parts[0].length)));
  }
  return places;
}
