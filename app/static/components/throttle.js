/** Throttling of frequent updates. */

import { useEffect, useRef } from "../core/ui.js";

/** Returns a function that schedules `act` in this many ms unless it is already scheduled, so that repeated calls do
 * not postpone it. */
export function useThrottle(act) {
  const timer = useRef(null);
  const latest = useRef(act);
  latest.current = act;
  const cancel = () => {
    clearTimeout(timer.current);
    timer.current = null;
  };
  useEffect(() => cancel, []);
  return (ms) => {
    timer.current ??= setTimeout(() => {
      timer.current = null;
      latest.current();
    }, ms);
  };
}
