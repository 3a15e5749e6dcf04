/** Display texts for the API's terms about compaction rounds and cleared outputs. */

import { count, dollars } from "../core/format.js";

/** The cost of a usage. */
export const price = ({ cost_usd: cost }) => (cost === null ? "unknown" : dollars(cost));

/** What a prune cleared: outputs, images, or both. */
export function clearedOf({ outputs_pruned: outputs, image_ids: images }) {
  const kinds = [[outputs, "output"], [images?.length ?? 0, "image"]].filter(([number]) => number > 0);
  return kinds.map(([number, noun]) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`).join(", ");
}

/** Why a round was started. */
export const REASONS = {
  overflow: "context exceeded the usable tokens",
  threshold: "context was nearly full",
  provider_overflow: "provider rejected the request as too large",
  manual: "requested manually",
};

/** How the context was compacted. */
export const RUNGS = {
  prune: "clearing old outputs",
  summary: "summary by the model",
  fold: "folding without a model",
  shrink: "shrinking the tail",
};

/** Whether no model wrote the round's summary. */
export const isWithoutModel = ({ status, rung }) => status === "completed" && (rung === "fold" || rung === "shrink");

/** Why outputs were cleared. */
export const PRUNE_REASONS = {
  trigger: "context exceeded the trigger",
  run_end: "a run ended close to the trigger",
  model_change: "the model changed, so the cache was cold anyway",
};

/** Why an item of a context differs from the stored message. */
export const ITEM_REASONS = {
  placeholder: "Cleared: the model sees a placeholder, which says how to see the output or the image again.",
  clip: "Only the beginning and the end are sent.",
  summary: "A summary, sent instead of earlier messages.",
  repair: "Repaired so that the provider accepts the request; the history is unchanged.",
  control: "Added by Palimpsest, not by the user.",
};

/** The badge color of a round's status. */
export const STATUS_KINDS = {
  running: "running",
  completed: "good",
  failed: "bad",
  cancelled: "warn",
  reverted: "warn",
  discarded: "",
};
