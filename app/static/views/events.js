/** The event log, for developers of clients: each durable event as it is, the newest at the bottom. */

import { Button, Failure, say } from "../components/basic.js";
import { EventFilter } from "../components/event_filter.js";
import { EventRow, textOf } from "../components/event_row.js";
import { useVirtualizer } from "../components/virtual.js";
import { count } from "../core/format.js";
import { sessionPath } from "../core/http.js";
import { route, setQuery } from "../core/router.js";
import { copy } from "../core/save.js";
import { html, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useSignal, useState } from "../core/ui.js";
import { EventLog, TYPES } from "../state/event_log.js";

/** Within this many px of the end, the log is followed. */
const AT_END = 4;
/** More is loaded when fewer rows than this are left beyond the visible ones. */
const NEAR_EDGE = 20;
const ROW = 32;
const ALL_TYPES = new Set(Object.values(TYPES).flat());

export function EventsView({ state }) {
  const { types: named = "", q: text = "" } = route.value.query;
  const types = useMemo(() => named.split(",").filter((type) => ALL_TYPES.has(type)), [named]);
  const log = useMemo(() => new EventLog(state, types), [state, types]);
  const follows = useSignal(true);
  useEffect(() => {
    follows.value = true;
    log.start();
  }, [log]);
  const live = state.log.value;
  useEffect(() => {
    if (follows.peek()) log.follow(live);
  }, [log, live, follows.value]);
  const items = useMatching(log.items.value, text);
  const box = useRef(null);
  return html`<div class="events-view">
    <div class="toolbar">
      <${EventFilter}
        types=${types}
        onTypes=${(chosen) => setQuery({ types: chosen.join() })}
        text=${text}
        onText=${(q) => setQuery({ q })}
      />
      <${Curl} state=${state} />
    </div>
    <p class="events-count dim">
      ${countOf(log, items, text)} Streaming deltas aren't stored.
    </p>
    ${log.problem.value && html`<${Failure} problem=${log.problem.value} onRetry=${() => log.loadEarlier()} />`}
    <${Rows} key=${types.join()} ...${{ box, log, items, follows }} isSearched=${text !== ""} />
    <${JumpButtons} ...${{ box, log, live, follows }} isSearched=${text !== ""} />
  </div>`;
}

/** The events that contain a text. Each event is searched only once. */
function useMatching(items, text) {
  const known = useMemo(() => new WeakMap(), [text]);
  return useMemo(() => {
    const wanted = text.toLowerCase();
    const contains = (event) => event.type.includes(wanted) || textOf(event).toLowerCase().includes(wanted);
    const isWanted = (event) => {
      if (!known.has(event)) known.set(event, contains(event));
      return known.get(event);
    };
    return wanted ? items.filter(isWanted) : items;
  }, [items, text]);
}

/** How many events are shown. */
function countOf(log, items, text) {
  const loaded = log.items.value.length;
  if (loaded === 0) return log.loading.value ? "Loading…" : "No matching events.";
  const all = `${count(loaded)} ${log.hasEarlier.value ? "loaded " : ""}${loaded === 1 ? "event" : "events"}`;
  if (text) return `${count(items.length)} of ${all} match.`;
  return log.hasEarlier.value ? `${all}; scroll up to load earlier ones.` : `${all}.`;
}

function Rows({ box, log, items, follows, isSearched }) {
  const [open, setOpen] = useState(() => new Set());
  const virtualizer = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    getItemKey: useCallback((index) => items[index].seq, [items]),
    estimateSize: () => ROW,
    initialOffset: () => Number.MAX_SAFE_INTEGER,
    overscan: 8,
    anchorTo: "end",
    followOnAppend: follows.value,
    // Within this many px of the end, the list scrolls along when the end moves.
    scrollEndThreshold: follows.value ? 1 : -1,
  });
  useEnds({ box, virtualizer, log, follows, size: items.length, isSearched });
  const toggle = (seq) => {
    // An expanded row must stay where it is, also if the list is still on its way to the end.
    follows.value = false;
    virtualizer.cancelScroll();
    const next = new Set(open);
    if (!next.delete(seq)) next.add(seq);
    setOpen(next);
  };
  return html`<div ref=${box} class="events-box" role="region" aria-label="Events" tabindex="0">
    <div class="rows" role="list" style=${{ height: `${virtualizer.getTotalSize()}px` }}>
      ${virtualizer.getVirtualItems().map(
        ({ key, index, start }) => html`<div
          key=${key}
          ref=${virtualizer.measureElement}
          class="event-row"
          role="listitem"
          data-index=${index}
          data-seq=${key}
          style=${{ transform: `translateY(${start}px)` }}
        >
          <${EventRow} event=${items[index]} isOpen=${open.has(key)} onToggle=${() => toggle(key)} />
        </div>`,
      )}
    </div>
  </div>`;
}

/** Follows the end while the user is there, and loads more as they get near either end of the loaded events. */
function useEnds({ box, virtualizer, log, follows, size, isSearched }) {
  const top = useRef(0);
  /** Starts following if the newest event is visible, and returns whether it is. */
  const followAtEnd = ({ scrollHeight, clientHeight, scrollTop }) => {
    const isThere = scrollHeight - clientHeight - scrollTop <= AT_END && !log.hasLater.peek();
    if (isThere) follows.value = true;
    return isThere;
  };
  // Expanding or collapsing a row may bring the end into view.
  useLayoutEffect(() => void followAtEnd(box.current), [virtualizer.getTotalSize()]);
  useEffect(() => {
    const { current: element } = box;
    const onScroll = () => {
      if (!followAtEnd(element) && element.scrollTop < top.current) follows.value = false;
      top.current = element.scrollTop;
    };
    // Runs in the capture phase, before the list's own handler, which would otherwise scroll back to the end.
    element.addEventListener("scroll", onScroll, { capture: true, passive: true });
    return () => element.removeEventListener("scroll", onScroll, { capture: true });
  }, [log]);
  const mayLoad = !log.loading.value && !log.problem.value;
  useLayoutEffect(() => {
    const { range } = virtualizer;
    if (follows.peek() && size > 0) virtualizer.scrollToEnd();
    if (!mayLoad || !range) return;
    // Searching for a rare text would load the whole log at once: a button does it page by page.
    if (log.hasEarlier.peek() && !isSearched && range.startIndex < NEAR_EDGE) log.loadEarlier();
    else if (log.hasLater.peek() && range.endIndex > size - NEAR_EDGE) log.loadLater();
  });
}

function JumpButtons({ box, log, live, follows, isSearched }) {
  const isAway = !follows.value || log.hasLater.value;
  const newCount = isAway ? log.waiting(live) : 0;
  // When a button disappears, the list gets its focus.
  const focus = () => box.current.focus({ preventScroll: true });
  const toNewest = () => {
    follows.value = true;
    if (log.hasLater.peek()) log.start();
    focus();
  };
  const searchEarlier = async () => {
    await log.loadEarlier();
    if (!log.hasEarlier.peek()) focus();
  };
  return html`<div class="events-ways">
    ${isSearched &&
    log.hasEarlier.value &&
    html`<${Button} onClick=${searchEarlier}>Search earlier events<//>`}
    ${isAway &&
    html`<button type="button" class="primary" onClick=${toNewest}>
      Jump to newest${newCount > 0 ? html` <span class="numbers">(${count(newCount)} new)</span>` : ""}
    </button>`}
  </div>`;
}

/** A curl command that follows the same stream, from where the view was opened. */
function Curl({ state }) {
  const [after] = useState(() => state.follower.peek()?.lastId ?? state.session.peek().last_seq);
  const url = `${location.origin}${sessionPath(state.id, "events")}?after=${after}`;
  const command = `curl -N -H "Authorization: Bearer $PALIMPSEST_API_KEY" '${url}'`;
  return html`<details class="curl">
    <summary>Follow with curl</summary>
    <pre tabindex="0" role="region" aria-label="Command">${command}</pre>
    <p class="dim">Without “after”, it starts at the first event. A server without API keys needs no header.</p>
    <${Button} onClick=${() => copy(command).then(() => say("Copied."))}>Copy<//>
  </details>`;
}
