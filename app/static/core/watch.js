/** Detects that a stream has gone silent. */

/** Calls `onSilence` after `ms` milliseconds without `heard()`. */
export class Watch {
  #timer = null;
  #ms;
  #onSilence;

  constructor(ms, onSilence) {
    this.#ms = ms;
    this.#onSilence = onSilence;
    this.heard();
  }

  heard() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#onSilence, this.#ms);
  }

  stop() {
    clearTimeout(this.#timer);
  }
}
