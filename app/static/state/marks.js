/** Marks on messages, tool results and images that the model no longer sees. */

import { batch } from "../core/ui.js";

/** Marks are loaded once for all changes within this time, in ms. */
const SETTLE_MS = 300;

/** Keeps the marks of all loaded messages up to date. */
export class Marks {
  #held;
  #history;
  #timer = null;

  constructor(held, history) {
    this.#held = held;
    this.#history = history;
  }

  /** Marks results as pruned before the other fields are loaded. */
  put(callIds, at) {
    for (const callId of callIds) {
      this.#held.changeResult(callId, (part) => ({ ...part, compacted_at: part.compacted_at ?? at }));
    }
  }

  /** Reloads all marks soon, after a change that may affect any of them. */
  loadSoon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#load().catch(() => {}), SETTLE_MS);
  }

  async #load() {
    const { first, last } = this.#held;
    for await (const messages of this.#history.all(first, last)) {
      batch(() => {
        for (const message of messages) this.#held.putMarks(message);
      });
    }
  }
}
