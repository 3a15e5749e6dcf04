/** Streamed texts: message parts, tool arguments and live output, from deltas with offsets.
 *
 * On each connection the first delta of a part replaces its text, and later ones append to it. A delta that would leave
 * a gap, which the server never sends, is reported instead of applied.
 */

import { firstPoints, pointsIn } from "../core/text.js";

/** A growing text, and its length in code points. */
export class OpenText {
  text = "";
  points = 0;

  /** Writes a delta at its offset, replacing the text from there on. Returns false if it would leave a gap. */
  put(offset, text) {
    if (offset > this.points) return false;
    if (offset < this.points) {
      this.text = firstPoints(this.text, offset);
      this.points = offset;
    }
    this.text += text;
    this.points += pointsIn(text);
    return true;
  }
}

/** How much of a command's live output is kept, in UTF-16 units: as much as the server resends. */
export const PREVIEW_CHARS = 64 * 1024;

/** The end of a command's live output. Gaps are allowed here: the result replaces it. */
export class Preview {
  text = "";
  #end = 0;

  put(offset, text) {
    const continues = offset === this.#end;
    this.#end = offset + pointsIn(text);
    const joined = continues ? this.text + text : text;
    // Cut only occasionally: cutting on each delta would copy the whole text each time.
    this.text = joined.length > 2 * PREVIEW_CHARS ? joined.slice(-PREVIEW_CHARS) : joined;
  }
}

/** All open parts, whether or not their messages are loaded, so that a user who returns to the newest messages sees
 * their complete texts. Calls `onChange(key)` for each delta; the key is a part's id, or a call's id for its live
 * output. */
export class OpenParts {
  #parts = new Map();
  #seen = new Set();
  #onChange;

  constructor(onChange) {
    this.#onChange = onChange;
  }

  /** On a new connection, the first delta of each part replaces its text. */
  connected() {
    this.#seen.clear();
  }

  get(key) {
    return this.#parts.get(key);
  }

  /** The keys of a message's open parts. */
  of(messageId) {
    return [...this.#parts].filter(([, part]) => part.messageId === messageId).map(([key]) => key);
  }

  /** Applies a delta of a text, of reasoning or of a call's arguments. Returns false if it would leave a gap. */
  put(type, { part_id: id, message_id: messageId, index, name, offset, text }) {
    if (!this.#seen.has(id)) {
      this.#parts.set(id, { type, messageId, index, name, written: new OpenText() });
      this.#seen.add(id);
    }
    if (!this.#parts.get(id).written.put(offset, text)) return false;
    this.#onChange(id);
    return true;
  }

  /** Adds a piece of a running call's output. */
  putOutput({ call_id: callId, offset, text }) {
    const open = this.#parts.get(callId) ?? { type: "output", written: new Preview() };
    this.#parts.set(callId, open);
    open.written.put(offset, text);
    this.#onChange(callId);
  }

  drop(key) {
    this.#parts.delete(key);
    this.#seen.delete(key);
  }
}
