/** Lengths and slices in code points, which the server uses for offsets; JavaScript strings count UTF-16 units. */

const PAIRS = /[\uD800-\uDBFF][\uDC00-\uDFFF]/g;

/** The number of code points in a text. */
export function pointsIn(text) {
  return text.length - (text.match(PAIRS)?.length ?? 0);
}

/** The first `count` code points of a text. */
export function firstPoints(text, count) {
  if (count >= text.length) return text;
  let units = 0;
  for (let points = 0; points < count && units < text.length; points += 1) {
    units += text.codePointAt(units) > 0xffff ? 2 : 1;
  }
  return text.slice(0, units);
}
