/** Polls for state that has no events in the session's log. */

import { useEffect, useSignal } from "../core/ui.js";

/** How often, in ms. */
const EVERY_MS = 2_000;
const GONE = Symbol("gone");

/** A signal with the newest answer of `ask`, which gets the one before; null before the first. Asks while `isActive`
 * and the page is visible, until an answer `isLast` or nothing is there. After another failure, the last answer stays. */
export function usePolled(ask, isActive, isLast) {
  const answer = useSignal(null);
  useEffect(() => {
    if (!isActive) return undefined;
    let isOver = false;
    let timer = null;
    const again = async () => {
      const before = answer.peek();
      const found = document.hidden ? null : await ask(before).catch(({ status }) => (status === 404 ? GONE : null));
      if (isOver || found === GONE) return;
      if (found) answer.value = found;
      if (found && isLast(found)) return;
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
