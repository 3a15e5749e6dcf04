/** Exponential backoff. */

import { needsKey } from "./http.js";
import { effect } from "./ui.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;

/** Waits longer after each failure, and at least as long as the server asked for. A wait ends early when the network is
 * back, the page becomes visible, or the user logs in. */
export class Backoff {
  #ms = FIRST_WAIT_MS;
  #wake = null;

  /** Resets the backoff after a success. */
  reset() {
    this.#ms = FIRST_WAIT_MS;
  }

  /** How long to wait after this problem, in ms. */
  next(problem) {
    const wait = (needsKey.peek() ? LONGEST_WAIT_MS : this.#ms) * (0.75 + Math.random() / 2);
    this.#ms = Math.min(LONGEST_WAIT_MS, this.#ms * 2);
    return Math.max(wait, (problem?.retryAfterS ?? 0) * 1000);
  }

  /** Waits this many ms, or less if the wait ends early. */
  async wait(ms) {
    let timer;
    let unwatch;
    const endIfVisible = () => document.visibilityState === "visible" && this.end();
    addEventListener("online", endIfVisible);
    document.addEventListener("visibilitychange", endIfVisible);
    await new Promise((resolve) => {
      this.#wake = resolve;
      timer = setTimeout(resolve, ms);
      const wanted = needsKey.peek();
      unwatch = effect(() => wanted && !needsKey.value && resolve());
    });
    this.#wake = null;
    clearTimeout(timer);
    unwatch();
    removeEventListener("online", endIfVisible);
    document.removeEventListener("visibilitychange", endIfVisible);
  }

  /** Ends the current wait. */
  end() {
    this.#wake?.();
  }
}
