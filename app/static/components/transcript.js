/** The transcript: a list of messages of any length, of which only what is in sight is drawn.
 *
 * It follows the newest message for as long as its reader is at the end; somebody who reads further up is left where
 * they are, whatever comes, grows or is loaded above.
 */

import { Button, Failure } from "./basic.js";
import { Folds, FoldsContext } from "./fold.js";
import { labelOf, Message } from "./message.js";
import { WholeOutput, WholeOutputContext } from "./output.js";
import { RoundRule } from "./round_rule.js";
import { estimate, rowsOf } from "./rows.js";
import { useVirtualizer } from "./virtual.js";
import { count } from "../core/format.js";
import { html, useCallback, useComputed, useLayoutEffect, useMemo, useRef, useSignal } from "../core/ui.js";

/** Within so many px of the end somebody reads the newest. */
const AT_END = 4;
/** More is loaded when fewer rows than this are left beyond what is in sight. */
const NEAR_EDGE = 15;

export function Transcript({ state }) {
  const { transcript } = state;
  const box = useRef(null);
  const folds = useMemo(() => new Folds(), [state]);
  const whole = useSignal(null);
  const rows = useComputed(() => rowsOf(transcript, state.rounds.value)).value;
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    getItemKey: useCallback((index) => rows[index].key, [rows]),
    estimateSize: (index) => estimate(transcript, rows[index]),
    initialOffset: () => Number.MAX_SAFE_INTEGER,
    overscan: 6,
    anchorTo: "end",
    followOnAppend: transcript.isFollowed,
    paddingStart: 8,
    paddingEnd: 24,
  });
  const place = usePlace(transcript, virtualizer, box);
  useEdges(transcript, virtualizer, rows.length);
  const isBusy = transcript.loading.value !== null;
  const setSize = transcript.hasEarlier.value || transcript.hasLater.value ? -1 : rows.length;
  return html`<div class="transcript">
    <${Edges} transcript=${transcript} />
    <div
      ref=${box}
      class="transcript-box"
      role="feed"
      aria-label="Messages"
      aria-busy=${isBusy}
      tabindex="0"
      onScrollCapture=${place.onScroll}
      onKeyDown=${place.onKeyDown}
    >
      ${rows.length === 0 && !isBusy && html`<${Empty} />`}
      <${FoldsContext.Provider} value=${folds}><${WholeOutputContext.Provider} value=${whole}>
        <div class="rows" style=${{ height: `${virtualizer.getTotalSize()}px` }}>
          ${virtualizer.getVirtualItems().map(({ key, index, start }) => {
            const row = rows[index];
            return html`<article
              key=${key}
              ref=${virtualizer.measureElement}
              class=${row.round ? "row round-rule" : "row"}
              style=${{ top: `${start}px` }}
              data-index=${index}
              aria-posinset=${index + 1}
              aria-setsize=${setSize}
              ...${attributes(transcript, row)}
            >
              ${row.round
                ? html`<${RoundRule} sessionId=${state.id} round=${row.round} />`
                : html`<${Message} state=${state} id=${row.id} />`}
            </article>`;
          })}
        </div>
      <//><//>
    </div>
    ${whole.value && html`<${WholeOutput} path=${whole.value} onClose=${() => (whole.value = null)} />`}
    <${Ways} transcript=${transcript} place=${place} />
  </div>`;
}

function attributes(transcript, { id, round }) {
  if (round) return { "data-round": round.round, "aria-label": `Compaction round ${round.round}` };
  const message = transcript.message(id)?.peek();
  if (!message) return {};
  return { "data-message-id": id, "data-role": message.role, "aria-label": labelOf(message) };
}

/** Where the reader is, and the ways to the first and the newest message. */
function usePlace(transcript, virtualizer, box) {
  const goal = useRef("end");
  const top = useRef(0);
  /** How many messages had come when the reader left the end; null while they are there. */
  const left = useSignal(null);
  const follow = (isFollowed) => {
    transcript.isFollowed = isFollowed;
    if (isFollowed) left.value = null;
    else left.value ??= transcript.arrived.peek();
  };
  useLayoutEffect(() => {
    const { current: element } = box;
    const isBehind = transcript.isFollowed && element.scrollHeight - element.clientHeight - element.scrollTop > AT_END;
    if (goal.current === "start") virtualizer.scrollToOffset(0);
    else if (goal.current === "end" || isBehind) virtualizer.scrollToEnd();
    goal.current = null;
  });
  /** Taken before the list hears of it, so that it is not pulled back by one who has just left. */
  const onScroll = ({ currentTarget: { scrollHeight, clientHeight, scrollTop } }) => {
    const isAtEnd = scrollHeight - clientHeight - scrollTop <= AT_END;
    if (isAtEnd && !transcript.hasLater.peek()) follow(true);
    else if (scrollTop < top.current) follow(false);
    top.current = scrollTop;
  };
  const toFirst = async () => {
    if (transcript.hasEarlier.peek()) await transcript.loadOldest();
    follow(false);
    goal.current = "start";
    virtualizer.scrollToOffset(0);
  };
  const toNewest = async () => {
    if (transcript.hasLater.peek()) await transcript.loadNewest();
    follow(true);
    goal.current = "end";
    virtualizer.scrollToEnd();
    box.current.focus({ preventScroll: true });
  };
  const onKeyDown = (event) => {
    if (event.target !== event.currentTarget || event.altKey || event.metaKey) return;
    const go = { Home: toFirst, End: toNewest }[event.key];
    if (!go) return;
    event.preventDefault();
    go().catch(() => {});
  };
  return { left, onScroll, onKeyDown, toFirst, toNewest };
}

/** Loads more as the reader comes near an end of what is held. */
function useEdges(transcript, virtualizer, size) {
  const { hasEarlier, hasLater, loading, problem } = transcript;
  const mayLoad = !loading.value && !problem.value;
  const earlier = hasEarlier.value;
  const later = hasLater.value;
  useLayoutEffect(() => {
    const { range } = virtualizer;
    if (!mayLoad || !range) return;
    if (earlier && range.startIndex < NEAR_EDGE) transcript.loadEarlier().catch(() => {});
    else if (later && range.endIndex > size - NEAR_EDGE) transcript.loadLater().catch(() => {});
  });
}

function Edges({ transcript }) {
  const problem = transcript.problem.value;
  if (problem) return html`<${Failure} problem=${problem} onRetry=${() => (transcript.problem.value = null)} />`;
  return transcript.loading.value ? html`<div class="transcript-loading" role="status">Loading messages …</div>` : null;
}

function Ways({ transcript, place }) {
  const left = place.left.value;
  const isAway = left !== null || transcript.hasLater.value;
  if (!isAway) return null;
  const fresh = left === null ? 0 : transcript.arrived.value - left;
  return html`<div class="transcript-ways">
    <${Button} onClick=${place.toFirst}>First message<//>
    <${Button} kind="primary" onClick=${place.toNewest}>
      Jump to newest${fresh > 0 ? html` <span class="numbers">(${count(fresh)} new)</span>` : ""}
    <//>
  </div>`;
}

function Empty() {
  return html`<div class="transcript-empty">
    <h2>Nothing has been said yet</h2>
    <p>Write below what the agent is to do. It starts as soon as you send it.</p>
  </div>`;
}
