/** Waits between tries at what has failed. */

import { needsKey } from "./http.js";
import { effect } from "./ui.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;

/** Waits longer each time, and at least as long as the server asked for; no longer once there is a reason to hope: the
 * network is back, somebody looks at the page again, or has logged in. */
export class Patience {
  #ms = FIRST_WAIT_MS;
  #wake = null;

  /** A try has gone well: the next wait is a short one. */
  reset() {
    this.#ms = FIRST_WAIT_MS;
  }

  /** How long to wait now, in ms, after a try that failed with this. */
  next(problem) {
    const wait = (needsKey.peek() ? LONGEST_WAIT_MS : this.#ms) * (0.75 + Math.random() / 2);
    this.#ms = Math.min(LONGEST_WAIT_MS, this.#ms * 2);
    return Math.max(wait, (problem?.retryAfterS ?? 0) * 1000);
  }

  /** Is over after so many ms, or sooner. */
  async wait(ms) {
    let timer;
    let unwatch;
    const hurry = () => document.visibilityState === "visible" && this.end();
    addEventListener("online", hurry);
    document.addEventListener("visibilitychange", hurry);
    await new Promise((resolve) => {
      this.#wake = resolve;
      timer = setTimeout(resolve, ms);
      const wanted = needsKey.peek();
      unwatch = effect(() => wanted && !needsKey.value && resolve());
    });
    this.#wake = null;
    clearTimeout(timer);
    unwatch();
    removeEventListener("online", hurry);
    document.removeEventListener("visibilitychange", hurry);
  }

  /** Ends a wait. */
  end() {
    this.#wake?.();
  }
}
