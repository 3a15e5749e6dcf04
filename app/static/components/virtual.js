/** A virtual list as a hook: only the rows in sight are elements. */

import { useLayoutEffect, useRef, useState } from "../core/ui.js";
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "../core/virtual.js";

/** The virtualizer of a list, which draws its component again as rows come into sight. `options` are the library's. */
export function useVirtualizer(options) {
  const [, again] = useState(0);
  const held = useRef(null);
  const all = {
    ...{ observeElementRect, observeElementOffset, scrollToFn: elementScroll },
    ...options,
    onChange: () => again((count) => count + 1),
  };
  if (held.current) held.current.setOptions(all);
  else held.current = new Virtualizer(all);
  useLayoutEffect(() => held.current._didMount(), []);
  useLayoutEffect(() => held.current._willUpdate());
  return held.current;
}
