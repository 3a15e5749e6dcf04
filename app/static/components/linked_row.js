/** The message that the address names: scrolled to, and marked. */

import { route } from "../core/router.js";
import { useLayoutEffect, useRef } from "../core/ui.js";

/** Shows the message with the seq in the address, or for a tool's result the message with its call; returns the key of
 * its row, or null. */
export function useLinkedRow(transcript, virtualizer, rows) {
  const seq = Number(route.value.query.message) || null;
  const isDue = useRef(false);
  // Before the effect below, which then waits if this has to load anything.
  useLayoutEffect(() => {
    isDue.current = seq !== null;
    if (seq !== null) transcript.loadAround(seq).catch(() => {});
  }, [transcript, seq]);
  const index = seq === null ? -1 : rows.findLastIndex(({ id }) => id && transcript.message(id)?.peek().seq <= seq);
  useLayoutEffect(() => {
    if (!isDue.current || index < 0 || transcript.loading.peek()) return;
    isDue.current = false;
    transcript.reading.follow(false);
    virtualizer.scrollToIndex(index, { align: "center" });
  });
  return rows[index]?.key ?? null;
}
