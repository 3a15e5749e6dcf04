/** Text boxes that grow with what is written in them. */

import { useLayoutEffect } from "../core/ui.js";

/** Makes a textarea as high as its text; its `max-height` in the style sheet is where it begins to scroll. */
export function useAutoGrow(area, text) {
  useLayoutEffect(() => {
    const { style } = area.current;
    style.height = "auto";
    style.height = `${area.current.scrollHeight + area.current.offsetHeight - area.current.clientHeight}px`;
  }, [text]);
}
