/** The rows of a transcript: its messages, with compaction rounds between them. */

/** Estimated heights of a row before it is measured, in px: its frame, a line, a fold. */
const FRAME = 28;
const LINE = 23;
const FOLD = 34;
/** Characters per line of text. */
const ACROSS = 95;

/** The rows in order: `{key, id}` for a message, `{key, round}` for a completed round, which follows the last message
 * that it covers, including the results of its calls. Subscribes to the order of the messages. */
export function rowsOf(transcript, rounds) {
  const after = roundsByLast(rounds);
  const rows = [];
  for (const id of transcript.order.value) {
    if (transcript.message(id).peek().role !== "tool") rows.push({ key: id, id });
    for (const round of after.get(id) ?? []) rows.push({ key: `round ${round.round}`, round });
  }
  return rows;
}

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
  const message = transcript.message(row.id)?.peek();
  if (!message || message.is_summary) return FRAME + FOLD;
  return message.parts.reduce((height, part) => height + heightOf(part), FRAME);
}

function heightOf(part) {
  if (part.type !== "text") return FOLD;
  return Math.min(20_000, Math.ceil(part.text.length / ACROSS) * LINE + 8);
}
