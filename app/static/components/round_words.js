/** What the API's words for rounds of compaction and cleared outputs mean, said in full. */

import { dollars } from "../core/format.js";

/** What a usage has cost. */
export const price = ({ cost_usd: cost }) => (cost === null ? "an unknown price" : dollars(cost));

/** Why a round was made. */
export const REASONS = {
  overflow: "the context was larger than usable",
  threshold: "the policy's trigger was near or met",
  provider_overflow: "the provider refused the request as too large",
  manual: "asked for by hand",
};

/** What made the context smaller. */
export const RUNGS = {
  prune: "old outputs cleared",
  summary: "summary by the model",
  fold: "folded without a model",
  shrink: "tail shrunk",
};

/** Why outputs were cleared. */
export const PRUNE_REASONS = {
  trigger: "the context had outgrown the trigger",
  run_end: "a run ended close to the trigger",
  model_change: "the model was changed, so its cache was cold anyway",
};

/** Why an item of a context is not simply the stored message. */
export const ITEM_REASONS = {
  placeholder: "Its output was cleared: a placeholder stands for it, and the model has recall for the whole.",
  clip: "Only head and tail of it are sent.",
  summary: "A summary: it stands for messages that are not sent any more.",
  repair: "Mended, so that the provider accepts the request; the history is unchanged.",
  control: "A line of ours, not the user's.",
};

/** The colour of a round's status. */
export const STATUS_KINDS = {
  running: "running",
  completed: "good",
  failed: "bad",
  cancelled: "warn",
  reverted: "warn",
  discarded: "",
};
