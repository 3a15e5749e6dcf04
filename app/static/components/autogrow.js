/** Text areas that grow with their content. */

import { useLayoutEffect } from "../core/ui.js";

/** Makes a textarea as high as its text; beyond its `max-height` in the style sheet it scrolls. */
export function useAutoGrow(area, text) {
  useLayoutEffect(() => {
    const { style } = area.current;
    style.height = "auto";
    style.height = `${area.current.scrollHeight + area.current.offsetHeight - area.current.clientHeight}px`;
  }, [text]);
}
