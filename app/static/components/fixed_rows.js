/** Rows of one height, of which only those in sight are drawn. */

import { html, useLayoutEffect, useRef, useState } from "../core/ui.js";

/** Rows that are drawn beyond the sight's edges, so that scrolling shows no gap. */
const BEYOND = 10;

/** A box that scrolls over `count` rows of `height` px. `row(index)` draws one, with a key. The rest is for the box;
 * `box` is a ref to it, `onWidth(px)` is told its inner width. */
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

/** Scrolls a box so that a row is in sight. */
export function reveal(box, index, height) {
  const top = index * height;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
}
