/** The delivery modes of messages. */

/** The modes' labels, in display order. */
export const MODES = { steer: "Steer", follow_up: "Follow-up", interrupt: "Interrupt" };

export const modeName = (mode) => MODES[mode] ?? mode;

/** By the status of a session that waits: its calls, and how their wait ends. */
const WAITS = {
  awaiting_approval: { calls: "awaiting approval", end: "decided" },
  awaiting_client: { calls: "awaiting a client", end: "resolved" },
};

/** What a mode does with a message in the session's current state. */
export function modeHint(mode, { status, compaction }) {
  if (status === "idle") return "Starts a run";
  const waits = WAITS[status];
  const once = waits ? `, once the calls above are ${waits.end}` : "";
  if (mode === "steer") return `Delivered before the next step${once}`;
  if (mode === "follow_up") return "Delivered when the run ends; each follow-up gets its own run";
  if (waits) return `Cancels the calls ${waits.calls} and is delivered immediately`;
  if (compaction?.in_progress) return "Waits for the running compaction, then ends the step and is delivered";
  return "Ends the current step, keeps its output so far, and is delivered immediately";
}
