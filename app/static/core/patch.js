/** Reads a patch of git: its parts by file, and the lines of one part. Pure functions; the text is untrusted. */

import { visible } from "./format.js";

/** The maximum number of lines of a file's diff; the rest is only in the download. */
export const MOST_LINES = 50_000;

const BEGIN = "diff --git ";

/** Splits a patch into its parts, one per changed file and in the patch's order. A file that became a link, or the
 * reverse, is deleted and added under one name: both belong to one part. */
export function partsOf(patch) {
  const parts = [];
  let head = null;
  for (let start = patch.startsWith(BEGIN) ? 0 : -1; start >= 0; ) {
    const next = patch.indexOf(`\n${BEGIN}`, start);
    const end = next < 0 ? patch.length : next + 1;
    // Lines of contents begin with a sign, so only a header can begin like this.
    const first = patch.slice(start, patch.indexOf("\n", start));
    if (first === head) parts[parts.length - 1] += patch.slice(start, end);
    else parts.push(patch.slice(start, end));
    head = first;
    start = next < 0 ? -1 : end;
  }
  return parts;
}

/** Whether a part is about this file, as far as its header tells: git quotes unusual names. */
export function isPartOf(part, { path, old_path: old }) {
  const head = part.slice(BEGIN.length, part.indexOf("\n"));
  return head.includes('"') || head === `a/${old ?? path} b/${path}`;
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/;
const KINDS = { " ": "same", "+": "added", "-": "removed" };

/** The diff of a file: `lines` are `{kind, old, new, side, start, end}` with kind "same", "added", "removed", "hunk" or
 * "end"; their text is from `start` to `end` of `texts[side]`, where `before` has the file's old lines, `after` its new
 * ones and `notes` all others. `facts` are other differences, such as the file's mode. */
export function diffOf(part) {
  const reader = new PartReader();
  for (let start = 0; start < part.length && !reader.isFull; ) {
    const found = part.indexOf("\n", start);
    const end = found < 0 ? part.length : found;
    reader.take(part.slice(start, end));
    start = end + 1;
  }
  return reader.diff();
}

class PartReader {
  #lines = [];
  #facts = [];
  #texts = { before: new Text(), after: new Text(), notes: new Text() };
  #numbers = null;
  #isBinary = false;

  /** Whether there are more lines than are shown. */
  get isFull() {
    return this.#lines.length >= MOST_LINES;
  }

  take(line) {
    if (line.startsWith(BEGIN)) this.#numbers = null;
    else if (line.startsWith("@@ ")) this.#hunk(line);
    else if (this.#numbers === null) this.#fact(line);
    else if (line.startsWith("\\")) this.#add("end", "notes", line.slice(1).trim());
    else this.#content(KINDS[line[0]] ?? "same", line.slice(1));
  }

  #hunk(line) {
    const [, old, now, place] = HUNK.exec(line) ?? [null, "1", "1", ""];
    this.#numbers = { old: Number(old), new: Number(now) };
    // A diff from the first line on needs no heading.
    if (place || Number(now) > 1) this.#add("hunk", "notes", `Line ${now}${place ? ` · ${place}` : ""}`);
  }

  #content(kind, text) {
    const { old, new: now } = this.#numbers;
    const numbers = { old: kind === "added" ? null : old, new: kind === "removed" ? null : now };
    if (kind === "same") this.#texts.before.add(visible(text));
    this.#add(kind, kind === "removed" ? "before" : "after", text, numbers);
    this.#numbers = { old: old + (kind === "added" ? 0 : 1), new: now + (kind === "removed" ? 0 : 1) };
  }

  #add(kind, side, text, numbers = { old: null, new: null }) {
    this.#lines.push({ kind, side, ...numbers, ...this.#texts[side].add(visible(text)) });
  }

  #fact(line) {
    const mode = /^(old|new|deleted file|new file) mode (\d+)$/.exec(line);
    if (mode) this.#facts.push({ name: mode[1], mode: mode[2] });
    if (line.startsWith("GIT binary patch") || line.startsWith("Binary files ")) this.#isBinary = true;
  }

  diff() {
    const texts = Object.fromEntries(Object.entries(this.#texts).map(([side, text]) => [side, text.joined()]));
    const { isFull } = this;
    return { lines: this.#lines, facts: factsOf(this.#facts), texts, isBinary: this.#isBinary, isFull };
  }
}

/** A text made of lines. */
class Text {
  #pieces = [];
  #length = 0;

  /** Adds a line and returns its place. */
  add(line) {
    const start = this.#length;
    this.#pieces.push(line);
    this.#length += line.length + 1;
    return { start, end: start + line.length };
  }

  joined() {
    return this.#pieces.join("\n");
  }
}

const TYPES = { 120000: "symbolic link", 160000: "git submodule", 100755: "executable" };

/** What the modes of a part mean, in words. */
function factsOf(modes) {
  const named = (name) => modes.find((fact) => fact.name === name)?.mode;
  const [before, after] = [named("old") ?? named("deleted file"), named("new") ?? named("new file")];
  const [was, is] = [TYPES[before] ?? "file", TYPES[after] ?? "file"];
  if (before && after) return [is === was ? `Mode: ${before} → ${after}` : `Type: ${was} → ${is}`];
  const type = after ? is : was;
  return type === "file" ? [] : [`Type: ${type}`];
}

/** Cuts the lines of a diff into rows of at most `columns` columns: `{line, from, to}`, where `line` is the index of
 * the line and `from` is its start in the first of its rows only. `cut(text, from, end, columns)` ends a row. */
export function rowsOfDiff({ lines, texts }, columns, cut) {
  const rows = [];
  lines.forEach(({ side, start, end }, line) => {
    let from = start;
    do {
      const to = cut(texts[side], from, end, columns);
      rows.push({ line, from, to });
      from = to;
    } while (from < end);
  });
  return rows;
}
