/** Work that news ask for faster than it should be done. */

import { useEffect, useRef } from "../core/ui.js";

/** Gives a function that has `act` called after so many ms, unless a call is due already: news that keep coming do not
 * put it off. */
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
