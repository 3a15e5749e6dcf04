/** Answers that are requested again and again, for what has no events of its session. */

import { useEffect, useSignal } from "../core/ui.js";

/** How often, in ms. */
const EVERY_MS = 2_000;

/** A signal with the newest answer of `ask`, which gets the one before; null before the first. Asks while `isActive`
 * and the page is visible. After a failure the last answer stays. */
export function usePolled(ask, isActive) {
  const answer = useSignal(null);
  useEffect(() => {
    if (!isActive) return undefined;
    let isOver = false;
    let timer = null;
    const again = async () => {
      const found = document.hidden ? null : await ask(answer.peek()).catch(() => null);
      if (isOver) return;
      if (found) answer.value = found;
      timer = setTimeout(again, EVERY_MS);
    };
    again();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [isActive]);
  return answer;
}
