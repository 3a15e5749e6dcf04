/** Notices that something has fallen silent. */

/** Calls `onSilence` once nothing was heard for so many ms. */
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
