/** The delivery modes of messages. */

/** The modes' labels, in display order. */
export const MODES = { steer: "Steer", follow_up: "Follow-up", interrupt: "Interrupt" };

export const modeName = (mode) => MODES[mode] ?? mode;

/** What ends the wait of a session's calls, by its status. */
const ENDS = { awaiting_approval: "your decision", awaiting_client: "the client's results" };

/** What a mode does with a message in the session's current state. */
export function modeHint(mode, { status, compaction }) {
  if (status === "idle") return "Starts a run";
  const end = ENDS[status];
  if (mode === "steer") return end ? `Sent after ${end}` : "Sent before the next step";
  if (mode === "follow_up") return "Starts its own run after this one";
  if (end) return "Cancels the calls above and is sent at once";
  if (compaction?.in_progress) return "Ends the step once the compaction is done";
  return "Ends this step now and keeps its output";
}
