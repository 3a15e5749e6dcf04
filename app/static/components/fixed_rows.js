/** A list of rows of equal height, of which only the visible ones are drawn. */

import { html, useLayoutEffect, useRef, useState } from "../core/ui.js";

/** Rows drawn beyond the visible area, so that scrolling shows no gap. */
const BEYOND = 10;

/** A box that scrolls over `count` rows of `height` px. `row(index)` renders one, with a key. `box` is a ref to the
 * box, `onWidth(px)` is called with its inner width; other props go to the box. */
export function FixedRows({ count, height, row, box, onWidth, inner = {}, ...rest }) {
  const own = useRef(null);
  const ref = box ?? own;
  const [sight, setSight] = useState({ top: 0, height: 0 });
  useLayoutEffect(() => {
    const element = ref.current;
    const look = () => {
      setSight({ top: element.scrollTop, height: element.clientHeight });
      onWidth?.(element.clientWidth);
    };
    look();
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  const first = Math.max(0, Math.min(count, Math.floor(sight.top / height)) - BEYOND);
  const last = Math.min(count, Math.ceil((sight.top + sight.height) / height) + BEYOND);
  const rows = Array.from({ length: Math.max(0, last - first) }, (_, place) => row(first + place));
  const place = { transform: `translateY(${first * height}px)` };
  return html`<div ref=${ref} ...${rest}>
    <div ...${inner} style=${{ height: `${count * height}px` }}>
      <div class="rows-in-sight" role="presentation" style=${place}>${rows}</div>
    </div>
  </div>`;
}

/** Scrolls a row into view. */
export function reveal(box, index, height) {
  const top = index * height;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
}
