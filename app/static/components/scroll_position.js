/** The scroll position in a transcript, and jumps to its first and newest message. */

import { effect, useLayoutEffect, useRef } from "../core/ui.js";

/** Within this many px of the end, the user is reading the newest message. */
const AT_END = 4;

/** Input within this time (ms) before a scroll may be its cause. */
const INPUT_MS = 500;

const isAtEnd = (element) => endOf(element) - element.scrollTop <= AT_END;

/** Keeps the scroll position in the list, and returns handlers to change it. */
export function usePlace(transcript, virtualizer, box) {
  const { reading } = transcript;
  const goal = useRef(reading.isFollowed ? "end" : null);
  const before = useRef({ scrollTop: 0, scrollHeight: 0, clientHeight: 0, lowest: Infinity });
  const touchedAt = useRef(-Infinity);
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
    const { scrollTop, lowest } = before.current;
    before.current = { ...sizesOf(box.current), scrollTop, lowest: Math.min(lowest, endOf(box.current)) };
  });
  // A scroll to the end may still be on its way: it would take what the user opens with it.
  useLayoutEffect(
    () => effect(() => { if (reading.left.value !== null) virtualizer.cancelScroll(); }),
    [reading, virtualizer],
  );
  // Opening or closing a row may bring the end into view.
  useLayoutEffect(() => void followAtEnd(box.current), [virtualizer.getTotalSize()]);
  useLayoutEffect(() => {
    reading.place = null;
    return () => (reading.place = reading.isFollowed ? null : placeOf(virtualizer));
  }, [transcript]);
  const focus = () => box.current.focus({ preventScroll: true });
  /** Runs in the capture phase, before the list's own handler, which would otherwise scroll back to the end. A browser
   * also scrolls up when the list gets shorter or its box higher. It was the user if neither happened, soon after some
   * input, or if it is farther than that explains. */
  const onScroll = ({ currentTarget: element }) => {
    const { scrollTop, scrollHeight, clientHeight, lowest } = before.current;
    const isUp = element.scrollTop < scrollTop;
    const isSame = element.scrollHeight === scrollHeight && element.clientHeight === clientHeight;
    const isFar = element.scrollTop < Math.min(lowest, endOf(element)) - element.clientHeight;
    before.current = sizesOf(element);
    if (followAtEnd(element) || !isUp) return;
    if (isSame || isFar || performance.now() - touchedAt.current < INPUT_MS) reading.follow(false);
  };
  const onInput = () => (touchedAt.current = performance.now());
  const toFirst = async () => {
    if (transcript.hasEarlier.peek()) await transcript.loadOldest();
    reading.follow(false);
    goal.current = "start";
    virtualizer.scrollToOffset(0);
  };
  const toNewest = async () => {
    await transcript.followNewest();
    goal.current = "end";
    virtualizer.scrollToEnd();
    focus();
  };
  const onKeyDown = (event) => {
    onInput();
    if (event.target !== event.currentTarget || event.altKey || event.metaKey) return;
    const go = { Home: toFirst, End: toNewest }[event.key];
    if (!go) return;
    event.preventDefault();
    go().catch(() => {});
  };
  const inputs = { onWheel: onInput, onPointerDown: onInput, onTouchMove: onInput, onKeyDown };
  return { focus, handlers: { ...inputs, onScrollCapture: onScroll }, toFirst, toNewest };
}

const endOf = ({ scrollHeight, clientHeight }) => scrollHeight - clientHeight;

/** The position and the sizes of a box; `lowest` is the lowest end that it has had since its last scroll. */
function sizesOf(element) {
  const { scrollTop, scrollHeight, clientHeight } = element;
  return { scrollTop, scrollHeight, clientHeight, lowest: endOf(element) };
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
