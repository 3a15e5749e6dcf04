/** The scroll position in a transcript, and jumps to its first and newest message. */

import { useLayoutEffect, useRef } from "../core/ui.js";

/** Within this many px of the end, the user is reading the newest message. */
const AT_END = 4;

const isAtEnd = ({ scrollHeight, clientHeight, scrollTop }) => scrollHeight - clientHeight - scrollTop <= AT_END;

/** Keeps the scroll position in the list, and returns handlers to change it. */
export function usePlace(transcript, virtualizer, box) {
  const { reading } = transcript;
  const goal = useRef(reading.isFollowed ? "end" : null);
  const top = useRef(0);
  /** Starts following if the newest message is visible, and returns whether it is. */
  const followAtEnd = (element) => {
    const isThere = isAtEnd(element) && !transcript.hasLater.peek();
    if (isThere) reading.follow(true);
    return isThere;
  };
  useLayoutEffect(() => {
    const isBehind = reading.isFollowed && !isAtEnd(box.current);
    if (goal.current === "start") virtualizer.scrollToOffset(0);
    else if (goal.current === "end" || isBehind) virtualizer.scrollToEnd();
    goal.current = null;
  });
  // Opening or closing a row may bring the end into view.
  useLayoutEffect(() => void followAtEnd(box.current), [virtualizer.getTotalSize()]);
  useLayoutEffect(() => {
    reading.place = null;
    return () => (reading.place = reading.isFollowed ? null : placeOf(virtualizer));
  }, [transcript]);
  const focus = () => box.current.focus({ preventScroll: true });
  /** Runs in the capture phase, before the list's own handler, which would otherwise scroll back to the end. */
  const onScroll = ({ currentTarget: element }) => {
    if (!followAtEnd(element) && element.scrollTop < top.current) reading.follow(false);
    top.current = element.scrollTop;
  };
  const toFirst = async () => {
    if (transcript.hasEarlier.peek()) await transcript.loadOldest();
    reading.follow(false);
    goal.current = "start";
    virtualizer.scrollToOffset(0);
  };
  const toNewest = async () => {
    if (transcript.hasLater.peek()) await transcript.loadNewest();
    reading.follow(true);
    goal.current = "end";
    virtualizer.scrollToEnd();
    focus();
  };
  const onKeyDown = (event) => {
    if (event.target !== event.currentTarget || event.altKey || event.metaKey) return;
    const go = { Home: toFirst, End: toNewest }[event.key];
    if (!go) return;
    event.preventDefault();
    go().catch(() => {});
  };
  return { focus, onScroll, onKeyDown, toFirst, toNewest };
}

/** The row at the top, how far it is scrolled past the top (px), and the heights of all measured rows. */
function placeOf(virtualizer) {
  const offset = virtualizer.getScrollOffset();
  const row = virtualizer.getVirtualItemForOffset(offset);
  return row ? { key: row.key, beyond: offset - row.start, sizes: virtualizer.takeSnapshot() } : null;
}

/** The scroll offset that restores the place; null without a place, or if its row is gone. */
export function offsetOf(virtualizer, rows, place) {
  const index = place ? rows.findIndex(({ key }) => key === place.key) : -1;
  return index < 0 ? null : virtualizer.getMeasurements()[index].start + place.beyond;
}
