/** How somebody reads a transcript: it outlives what shows it, so that they find it as they left it. */

import { signal } from "../core/ui.js";
import { Folds } from "./folds.js";

export class Reading {
  /** How many messages had come when the reader left the newest; null while they read those. */
  left = signal(null);
  /** What is open in the rows. It is to stay where it was opened, so that the newest is not followed from then on. */
  folds = new Folds(() => this.follow(false));
  planFolds = new Folds();
  /** Where the reader was when the rows were last taken away, as the list of rows has it; null at the newest. */
  place = null;
  #arrived;

  /** `arrived` is the signal of how many messages have come. */
  constructor(arrived) {
    this.#arrived = arrived;
  }

  /** Whether somebody reads the newest messages. */
  get isFollowed() {
    return this.left.peek() === null;
  }

  follow(isFollowed) {
    this.left.value = isFollowed ? null : (this.left.peek() ?? this.#arrived.peek());
  }
}
