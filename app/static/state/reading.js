/** The reading state of a transcript; it outlives the view, so that a reopened transcript is as the user left it. */

import { signal } from "../core/ui.js";
import { Folds } from "./folds.js";

export class Reading {
  /** How many messages had arrived when the user scrolled away from the newest one; null while following. */
  left = signal(null);
  /** What is open in the rows. Opening something stops following, so that it stays in place. */
  folds = new Folds(() => this.follow(false));
  planFolds = new Folds();
  /** The scroll position when the rows were last unmounted; null when following. */
  place = null;
  #arrived;

  /** `arrived` is the signal of how many messages have arrived. */
  constructor(arrived) {
    this.#arrived = arrived;
  }

  /** Whether the newest messages are followed. */
  get isFollowed() {
    return this.left.peek() === null;
  }

  follow(isFollowed) {
    this.left.value = isFollowed ? null : (this.left.peek() ?? this.#arrived.peek());
  }
}
