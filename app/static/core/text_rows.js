/** A text as rows of limited width, each of a line or a part of one, and the coloured pieces of a row. */

/** Columns that a tab is wide. */
export const TAB = 4;

/** Cuts a text into rows: `starts` and `ends` are places in it, `lines` the number of the line that a row begins, 0 for
 * a row that goes on with the one before. */
export function textRows(text, columns) {
  const rows = { starts: [], ends: [], lines: [] };
  let line = 0;
  for (let start = 0; start <= text.length; ) {
    const found = text.indexOf("\n", start);
    const end = found < 0 ? text.length : found;
    line += 1;
    // The end of the last line begins no further one.
    if (start === text.length && line > 1) break;
    addLine(rows, text, start, end, line, columns);
    start = end + 1;
  }
  return rows;
}

function addLine(rows, text, start, end, line, columns) {
  let from = start;
  let number = line;
  do {
    const to = cut(text, from, end, columns);
    rows.starts.push(from);
    rows.ends.push(to);
    rows.lines.push(number);
    from = to;
    number = 0;
  } while (from < end);
}

/** Where a row that begins at `from` ends: at least one character on. */
function cut(text, from, end, columns) {
  if (end - from <= columns / TAB) return end;
  let width = 0;
  let place = from;
  while (place < end && width < columns) {
    const code = text.charCodeAt(place);
    width += code === 9 ? TAB - (width % TAB) : 1;
    place += code >= 0xd800 && code <= 0xdbff && place + 1 < end ? 2 : 1;
  }
  return place;
}

/** A tree of tokens as a flat list, in order: `{start, end, scope}` for each stretch that has a colour. */
export function flatTokens(tree) {
  const tokens = [];
  let place = 0;
  const walk = (nodes, scope) => {
    for (const node of nodes) {
      if (typeof node !== "string") {
        walk(node.children, node.scope ?? scope);
        continue;
      }
      if (scope) tokens.push({ start: place, end: place + node.length, scope });
      place += node.length;
    }
  };
  walk(tree, null);
  return tokens;
}

/** The stretch of a text from `start` to `end`, as `{text, scope}`, scope null where it has no colour. */
export function pieces(text, start, end, tokens) {
  const found = [];
  let place = start;
  const add = (to, scope) => {
    if (to > place) found.push({ text: text.slice(place, to), scope });
    place = Math.max(place, to);
  };
  for (let index = firstAfter(tokens, start); index < tokens.length && tokens[index].start < end; index += 1) {
    add(Math.min(tokens[index].start, end), null);
    add(Math.min(tokens[index].end, end), tokens[index].scope);
  }
  add(end, null);
  return found;
}

/** The first token that ends behind `place`. */
function firstAfter(tokens, place) {
  let low = 0;
  let high = tokens.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tokens[middle].end <= place) low = middle + 1;
    else high = middle;
  }
  return low;
}
