/** What is open and what is folded, kept apart from what shows it. */

import { signal } from "../core/ui.js";

/** What is open, by a key of its own. `onToggle` is told before a thing is opened or closed. */
export class Folds {
  #open = new Map();
  #onToggle;

  constructor(onToggle = () => {}) {
    this.#onToggle = onToggle;
  }

  /** The signal of whether a thing is open. */
  of(key) {
    if (!this.#open.has(key)) this.#open.set(key, signal(false));
    return this.#open.get(key);
  }

  toggle(key) {
    this.#onToggle();
    const isOpen = this.of(key);
    isOpen.value = !isOpen.peek();
  }
}
