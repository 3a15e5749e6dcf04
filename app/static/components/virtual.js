/** A virtual list as a hook: only the rows in sight are elements, and the one that has the focus. */

import { useCallback, useLayoutEffect, useRef, useState } from "../core/ui.js";
import {
  defaultRangeExtractor, elementScroll, observeElementOffset, observeElementRect, Virtualizer,
} from "../core/virtual.js";

/** The virtualizer of a list, which draws its component again as rows come into sight. `options` are the library's. */
export function useVirtualizer(options) {
  const [, again] = useState(0);
  const redraw = () => again((count) => count + 1);
  const held = useRef(null);
  const all = {
    ...{ observeElementOffset, scrollToFn: elementScroll },
    observeElementRect: (virtualizer, tell) =>
      observeElementRect(virtualizer, (rect) => {
        tell(rect);
        // The library is silent where the same rows are in sight, and yet the newest may be no more.
        redraw();
      }),
    rangeExtractor: useCallback((range) => withFocused(defaultRangeExtractor(range), held.current), []),
    ...options,
    onChange: redraw,
  };
  if (held.current) held.current.setOptions(all);
  else held.current = new Virtualizer(all);
  useLayoutEffect(() => held.current._didMount(), []);
  useLayoutEffect(() => held.current._willUpdate());
  return held.current;
}

/** The places of the rows that are drawn, with that of the row that has the focus: a row that went with it would leave
 * the keyboard at the top of the page. */
function withFocused(indexes, virtualizer) {
  const index = focusedIndex(virtualizer);
  if (index < 0 || (index >= indexes[0] && index <= indexes.at(-1))) return indexes;
  return index < indexes[0] ? [index, ...indexes] : [...indexes, index];
}

/** -1 where no row has the focus. */
function focusedIndex({ scrollElement, elementsCache, options: { count, getItemKey } }) {
  const { activeElement } = document;
  if (!scrollElement?.contains(activeElement)) return -1;
  const row = activeElement.closest("[data-index]");
  const [key] = [...elementsCache].find(([, element]) => element === row) ?? [];
  if (key === undefined) return -1;
  // As long as no rows have come before it, it is where it was when it was drawn.
  const drawn = Number(row.dataset.index);
  if (drawn < count && getItemKey(drawn) === key) return drawn;
  for (let index = 0; index < count; index += 1) {
    if (getItemKey(index) === key) return index;
  }
  return -1;
}
