/** A virtual list as a hook: only the visible rows and the focused one are rendered. */

import { useCallback, useLayoutEffect, useRef, useState } from "../core/ui.js";
import {
  defaultRangeExtractor, elementScroll, observeElementOffset, observeElementRect, Virtualizer,
} from "../core/virtual.js";

/** A list's virtualizer, which rerenders its component as rows become visible. `options` are the library's. */
export function useVirtualizer(options) {
  const [, again] = useState(0);
  const redraw = () => again((count) => count + 1);
  const held = useRef(null);
  const all = {
    ...{ observeElementOffset, scrollToFn: elementScroll },
    observeElementRect: (virtualizer, tell) =>
      observeElementRect(virtualizer, (rect) => {
        tell(rect);
        // The library does not report a resize that keeps the same rows in range, but it may hide the newest row.
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

/** The indexes of the rendered rows, including the focused row: removing it would move the focus to the top of the
 * page. */
function withFocused(indexes, virtualizer) {
  const index = focusedIndex(virtualizer);
  if (index < 0 || (index >= indexes[0] && index <= indexes.at(-1))) return indexes;
  return index < indexes[0] ? [index, ...indexes] : [...indexes, index];
}

/** The index of the focused row, or -1. */
function focusedIndex({ scrollElement, elementsCache, options: { count, getItemKey } }) {
  const { activeElement } = document;
  if (!scrollElement?.contains(activeElement)) return -1;
  const row = activeElement.closest("[data-index]");
  const [key] = [...elementsCache].find(([, element]) => element === row) ?? [];
  if (key === undefined) return -1;
  // Unless rows were added before it, its index is the one it was rendered with.
  const drawn = Number(row.dataset.index);
  if (drawn < count && getItemKey(drawn) === key) return drawn;
  for (let index = 0; index < count; index += 1) {
    if (getItemKey(index) === key) return index;
  }
  return -1;
}
