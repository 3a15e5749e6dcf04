/** The rows of a transcript: its messages, with the ends of runs, notes and compaction rounds between them. */

import { imageHeight } from "./images.js";

/** Estimated heights of a row before it is measured, in px: its frame, a line, a fold. */
const FRAME = 12;
const LINE = 23;
const FOLD = 27;
const DIFF_LINE = 20;
const DIFF_LINES = 18;
const END = 90;
const NOTE = 34;
/** Characters per line of text. */
const ACROSS = 95;

/** The rows in order: `{key, id, isMore, isAnswer}` for a message, where `isMore` means that it continues the
 * assistant's previous one, `{key, end, hasAnswer}` for a run's end, `{key, note}` for
 * an MCP server, a sub-agent or a background command, and `{key, round}` for a completed round, which follows the last message that it covers,
 * including the results of its calls. `ends` and `notes` are those of state/run_ends.js. A completed run's last message
 * is its answer. Subscribes to the order of the messages. */
export function rowsOf(transcript, rounds, ends = [], notes = []) {
  const after = roundsByLast(rounds);
  const rows = [];
  const between = [...ends.map((end) => ({ seq: end.seq, end })), ...notes.map((note) => ({ seq: note.seq, note }))];
  between.sort((one, other) => one.seq - other.seq);
  const order = transcript.order.value;
  const seqOf = (place) => (place < order.length ? transcript.message(order[place]).peek().seq : lastSeq(transcript));
  let next = transcript.hasEarlier.value ? between.findIndex(({ seq }) => seq > seqOf(0)) : 0;
  if (next < 0) next = between.length;
  order.forEach((id, place) => {
    const { role, is_summary: isSummary } = transcript.message(id).peek();
    // The rule of its round shows the summary.
    if (role !== "tool" && !isSummary) {
      const isMore = role === "assistant" && rows.at(-1)?.role === role;
      rows.push({ key: id, id, role, isMore });
    }
    for (; next < between.length && between[next].seq < seqOf(place + 1); next += 1) {
      const { end, note } = between[next];
      if (end) addEnd(rows, end, transcript);
      else rows.push({ key: `note ${note.seq}`, note });
    }
    for (const round of after.get(id) ?? []) rows.push({ key: `round ${round.round}`, round });
  });
  return rows;
}

/** A seq before which all ends are shown after the last message: later messages may not be loaded. */
const lastSeq = (transcript) => (transcript.hasLater.value ? 0 : Infinity);

function addEnd(rows, end, transcript) {
  const last = rows.findLast(({ note }) => !note);
  const isAnswer = end.answer !== null && last?.id !== undefined && isText(transcript.message(last.id).peek());
  if (isAnswer) last.isAnswer = true;
  rows.push({ key: `end ${end.seq}`, end, hasAnswer: isAnswer });
}

const isText = ({ role, parts }) => role === "assistant" && parts.some(({ type }) => type === "text");

function roundsByLast(rounds) {
  const found = new Map();
  for (const round of rounds) {
    if (round.status !== "completed" || !round.last_message_id) continue;
    found.set(round.last_message_id, [...(found.get(round.last_message_id) ?? []), round]);
  }
  return found;
}

/** The estimated height of a row, in px. A good estimate keeps the scroll bar steady. */
export function estimate(transcript, row) {
  if (row.round) return 44;
  if (row.end) return END;
  if (row.note) return NOTE;
  const message = transcript.message(row.id)?.peek();
  if (!message) return FRAME;
  return message.parts.reduce((height, part) => height + heightOf(part), FRAME);
}

function heightOf(part) {
  if (part.type === "image") return imageHeight(part);
  if (part.type !== "text") return FOLD + diffHeight(part);
  return Math.min(20_000, Math.ceil(part.text.length / ACROSS) * LINE + 8);
}

/** The height of an edit's diff, which shows its first lines. */
function diffHeight({ name, arguments: args }) {
  if (name !== "write_file" && name !== "edit_file") return 0;
  const texts = [args?.content, args?.old_text, args?.new_text].filter((text) => typeof text === "string");
  const lines = texts.reduce((sum, text) => sum + text.split("\n", DIFF_LINES).length, 0);
  return Math.min(DIFF_LINES, lines) * DIFF_LINE;
}
