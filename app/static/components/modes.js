/** The delivery modes of messages. */

/** The modes' labels, in display order. */
export const MODES = { steer: "Steer", follow_up: "Follow-up", interrupt: "Interrupt" };

export const modeName = (mode) => MODES[mode] ?? mode;

/** What a mode does with a message in the session's current state. */
export function modeHint(mode, { status, compaction }) {
  if (status === "idle") return "Starts a run";
  const waits = status === "awaiting_approval";
  if (mode === "steer") return `Delivered before the next step${waits ? ", once the calls above are decided" : ""}`;
  if (mode === "follow_up") return "Delivered when the run ends; each follow-up gets its own run";
  if (waits) return "Cancels the calls awaiting approval and is delivered immediately";
  if (compaction?.in_progress) return "Waits for the running compaction, then ends the step and is delivered";
  return "Ends the current step, keeps its output so far, and is delivered immediately";
}
