/** The state of collapsible elements, kept outside their components. */

import { signal } from "../core/ui.js";

/** Which elements are open, by key. `onToggle` is called before one is opened or closed. */
export class Folds {
  #open = new Map();
  #onToggle;

  constructor(onToggle = () => {}) {
    this.#onToggle = onToggle;
  }

  /** A signal of whether an element is open. */
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
