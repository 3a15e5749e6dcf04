/** Where the reader of a transcript is, and the ways to its first and its newest message. */

import { useLayoutEffect, useRef } from "../core/ui.js";

/** Within so many px of the end somebody reads the newest. */
const AT_END = 4;

const isAtEnd = ({ scrollHeight, clientHeight, scrollTop }) => scrollHeight - clientHeight - scrollTop <= AT_END;

/** Keeps the reader's place in the list, and gives the ways to others. */
export function usePlace(transcript, virtualizer, box) {
  const { reading } = transcript;
  const goal = useRef(reading.isFollowed ? "end" : null);
  const top = useRef(0);
  /** Whether the newest is in sight; then it is followed. */
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
  // What is opened or folded may leave the end in sight.
  useLayoutEffect(() => void followAtEnd(box.current), [virtualizer.getTotalSize()]);
  useLayoutEffect(() => {
    reading.place = null;
    return () => (reading.place = reading.isFollowed ? null : placeOf(virtualizer));
  }, [transcript]);
  const focus = () => box.current.focus({ preventScroll: true });
  /** Taken before the list hears of it, so that it is not pulled back by one who has just left. */
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

/** The row at the top and how far it is scrolled beyond, in px, with the heights of all that were measured. */
function placeOf(virtualizer) {
  const offset = virtualizer.getScrollOffset();
  const row = virtualizer.getVirtualItemForOffset(offset);
  return row ? { key: row.key, beyond: offset - row.start, sizes: virtualizer.takeSnapshot() } : null;
}

/** How far the list has to be scrolled to be at that place again; null where there is none, or its row is no more. */
export function offsetOf(virtualizer, rows, place) {
  const index = place ? rows.findIndex(({ key }) => key === place.key) : -1;
  return index < 0 ? null : virtualizer.getMeasurements()[index].start + place.beyond;
}
