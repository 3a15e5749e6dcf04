/** Splits a text into rows of limited width, each a line or part of one, and a row into colored pieces. */

/** The width of a tab, in columns. */
export const TAB = 4;

/** Splits a text into rows: `starts` and `ends` are offsets, `lines` the line numbers, 0 for a row that continues the
 * line of the previous one. */
export function textRows(text, columns) {
  const rows = { starts: [], ends: [], lines: [] };
  let line = 0;
  for (let start = 0; start <= text.length; ) {
    const found = text.indexOf("\n", start);
    const end = found < 0 ? text.length : found;
    line += 1;
    // A final line break does not start another line.
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

/** The end of the row that starts at `from`; a row has at least one character. */
export function cut(text, from, end, columns) {
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

/** Flattens a token tree to a list in text order: `{start, end, scope}` for each colored range. */
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

/** Splits the text from `start` to `end` into `{text, scope}`, with scope null if it has no color. */
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

/** The index of the first token that ends after `place`. */
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
