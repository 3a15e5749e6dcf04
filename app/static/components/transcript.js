/** The transcript: a message list of any length, of which only the visible rows are rendered.
 *
 * It follows the newest message while the user is at the end; a user who reads further up keeps their position,
 * whatever arrives, grows or is loaded above.
 */

import { Button, Failure } from "./basic.js";
import { CommandNote } from "./command_note.js";
import { FoldsContext } from "./fold.js";
import { McpNote } from "./mcp_note.js";
import { SubagentNote } from "./subagent_note.js";
import { useLinkedRow } from "./linked_row.js";
import { labelOf, Message } from "./message.js";
import { WholeOutput, WholeOutputContext } from "./output_viewer.js";
import { offsetOf, usePlace } from "./scroll_position.js";
import { RoundRule } from "./round_rule.js";
import { RunCard } from "./run_card.js";
import { estimate, rowsOf } from "./rows.js";
import { useVirtualizer } from "./virtual.js";
import { count, plainLine } from "../core/format.js";
import { html, useCallback, useComputed, useEffect, useLayoutEffect, useRef, useSignal } from "../core/ui.js";
import { runEndsOf } from "../state/run_ends.js";

/** More is loaded when fewer rows than this are left beyond the visible ones. */
const NEAR_EDGE = 15;

export function Transcript({ state }) {
  const { transcript } = state;
  const { reading } = transcript;
  const box = useRef(null);
  const whole = useSignal(null);
  const ends = useRunEnds(state);
  const rows = useComputed(() => rowsOf(transcript, state.rounds.value, ends.items.value, ends.notes.value)).value;
  const isFollowed = reading.left.value === null;
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    getItemKey: useCallback((index) => rows[index].key, [rows]),
    estimateSize: (index) => estimate(transcript, rows[index]),
    initialOffset: () => offsetOf(virtualizer, rows, reading.place) ?? Number.MAX_SAFE_INTEGER,
    initialMeasurementsCache: reading.place?.sizes,
    overscan: 6,
    anchorTo: "end",
    followOnAppend: isFollowed,
    // Within this many px of the end, the list scrolls along when the end moves.
    scrollEndThreshold: isFollowed ? 1 : -1,
    paddingStart: 8,
    paddingEnd: 24,
  });
  const place = usePlace(transcript, virtualizer, box);
  useEdges(transcript, virtualizer, rows.length);
  useRowsHeight(box, virtualizer.getTotalSize());
  const linked = useLinkedRow(transcript, virtualizer, rows);
  const isBusy = transcript.loading.value !== null;
  const setSize = transcript.hasEarlier.value || transcript.hasLater.value ? -1 : rows.length;
  return html`<div class="transcript">
    <${Edges} transcript=${transcript} place=${place} />
    <div
      ref=${box}
      class="transcript-box"
      role=${rows.length ? "feed" : "region"}
      aria-label="Messages"
      aria-busy=${isBusy}
      tabindex="0"
      ...${place.handlers}
    >
      ${rows.length === 0 && !isBusy && html`<${Empty} />`}
      <${FoldsContext.Provider} value=${reading.folds}><${WholeOutputContext.Provider} value=${whole}>
        <div class="rows" style=${{ height: `${virtualizer.getTotalSize()}px` }}>
          ${virtualizer.getVirtualItems().map(({ key, index, start }) => {
            const row = rows[index];
            return html`<article
              key=${key}
              ref=${virtualizer.measureElement}
              class="${classOf(row)} ${key === linked ? "linked" : ""}"
              style=${{ top: `${start}px` }}
              data-index=${index}
              aria-posinset=${index + 1}
              aria-setsize=${setSize}
              ...${attributes(transcript, row)}
            >
              <${Content} state=${state} row=${row} isLatest=${row.end === ends.items.value.at(-1)} />
            </article>`;
          })}
        </div>
      <//><//>
    </div>
    ${whole.value && html`<${WholeOutput} path=${whole.value} onClose=${() => (whole.value = null)} />`}
    <${JumpButtons} transcript=${transcript} place=${place} />
  </div>`;
}

/** The ends of runs and the notes, which are loaded as messages are. */
function useRunEnds(state) {
  const { order, hasLater } = state.transcript;
  const ends = runEndsOf(state);
  const seqAt = (place) => state.transcript.message(order.value.at(place))?.peek().seq;
  const [first, last] = [seqAt(0), hasLater.value ? seqAt(-1) : Infinity];
  useEffect(() => ends.watch(), [ends]);
  useEffect(() => {
    if (first !== undefined) ends.cover(first, last);
  }, [first, last]);
  return ends;
}

/** Tells the style sheet the height of all rows, `--rows`, if the window is higher: the controls below take what a short
 * conversation leaves. */
function useRowsHeight(box, height) {
  // Setting it costs a style recalculation of the whole view.
  const rows = height < innerHeight ? `${height}px` : "";
  useLayoutEffect(() => box.current.closest("main").style.setProperty("--rows", rows), [rows]);
}

function classOf({ round, end, note, isAnswer }) {
  if (note) return "row note-row";
  if (round) return "row round-rule";
  if (end) return "row run-end-row";
  return isAnswer ? "row answer" : "row";
}

function Content({ state, row: { id, isMore, round, end, note, hasAnswer }, isLatest }) {
  if (round) return html`<${RoundRule} sessionId=${state.id} round=${round} />`;
  if (note) return html`<${noteOf(note)[0]} state=${state} note=${note} />`;
  if (end) return html`<${RunCard} ...${{ state, end, isLatest, hasAnswer }} />`;
  return html`<${Message} ...${{ state, id, isMore }} />`;
}

/** A note's component and label. */
function noteOf({ subagent_id: subagent, command_id: command, server }) {
  if (subagent) return [SubagentNote, "Sub-agent"];
  return command ? [CommandNote, "Background command"] : [McpNote, `MCP server ${plainLine(server)}`];
}

function attributes(transcript, { id, round, end, note }) {
  if (note) return { "data-note": note.seq, "aria-label": noteOf(note)[1] };
  if (end) return { "data-run-end": end.seq, "aria-label": `End of a run: ${end.outcome.replace("_", " ")}` };
  if (round) return { "data-round": round.round, "aria-label": `Compaction round ${round.round}` };
  const message = transcript.message(id)?.peek();
  if (!message) return {};
  return { "data-message-id": id, "data-role": message.role, "aria-label": labelOf(message) };
}

/** Loads more as the user gets near either end of the loaded messages. */
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

function Edges({ transcript, place }) {
  const problem = transcript.problem.value;
  const retry = () => {
    transcript.problem.value = null;
    place.focus();
  };
  if (problem) return html`<${Failure} problem=${problem} onRetry=${retry} />`;
  return transcript.loading.value ? html`<div class="transcript-loading" role="status">Loading messages…</div>` : null;
}

function JumpButtons({ transcript, place }) {
  const left = transcript.reading.left.value;
  const isAway = left !== null || transcript.hasLater.value;
  if (!isAway) return null;
  const newCount = left === null ? 0 : transcript.arrived.value - left;
  return html`<div class="transcript-ways">
    <${Button} onClick=${place.toFirst}>First message<//>
    <${Button} kind="primary" onClick=${place.toNewest}>
      Jump to newest${newCount > 0 ? html` <span class="numbers">(${count(newCount)} new)</span>` : ""}
    <//>
  </div>`;
}

function Empty() {
  return html`<div class="transcript-empty">
    <h2>No messages yet</h2>
    <p>Write below what the agent should do. It starts as soon as you send the message.</p>
  </div>`;
}
