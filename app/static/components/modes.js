/** The modes that a message is sent in. */

/** What each mode is called, in the order in which they are offered. */
export const MODES = { steer: "Steer", follow_up: "Follow-up", interrupt: "Interrupt" };

export const modeName = (mode) => MODES[mode] ?? mode;

/** What a mode does with a message, as the session stands. */
export function modeHint(mode, { status, compaction }) {
  if (status === "idle") return "Starts a run.";
  const waits = status === "awaiting_approval";
  if (mode === "steer") return `Delivered before the next step${waits ? ", once the calls above are decided" : ""}.`;
  if (mode === "follow_up") return "Delivered when the run would end; each follow-up has a run of its own.";
  if (waits) return "Cancels the calls that wait for approval, and is delivered at once.";
  if (compaction?.in_progress) return "Waits for the running compaction, then ends the step and is delivered.";
  return "Ends the current step at once, keeps what it has written, and is delivered.";
}
