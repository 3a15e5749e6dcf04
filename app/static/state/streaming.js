/** Texts that are being written: parts of messages, tool arguments and live output, from deltas by offset.
 *
 * On one connection the first delta of a part replaces what there was, later ones append. A delta that neither begins
 * at 0 nor follows on, which the server never sends, is told, so that the text never has a hole.
 */

import { firstPoints, pointsIn } from "../core/text.js";

/** Text as the page has it: `text`, and its length in code points. */
export class OpenText {
  text = "";
  points = 0;

  /** Puts a delta at its offset, on top of what was there from that offset on. False where it would leave a hole. */
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

/** How much of a command's live output is kept, in UTF-16 units, as much as the server sends of it again. */
export const PREVIEW_CHARS = 64 * 1024;

/** The end of a command's live output. Gaps are allowed here: the result replaces it. */
export class Preview {
  text = "";
  #end = 0;

  put(offset, text) {
    const continues = offset === this.#end;
    this.#end = offset + pointsIn(text);
    const joined = continues ? this.text + text : text;
    // Cut only now and then: to cut on each delta would copy all of it each time.
    this.text = joined.length > 2 * PREVIEW_CHARS ? joined.slice(-PREVIEW_CHARS) : joined;
  }
}

/** All parts that are being written, whether or not their messages are held: somebody who comes back to the newest
 * messages finds their texts whole. Calls `onChange(key)` for each delta; the key is a part's id, or a call's for its
 * live output. */
export class OpenParts {
  #parts = new Map();
  #fresh = new Set();
  #onChange;

  constructor(onChange) {
    this.#onChange = onChange;
  }

  /** On a new connection the first delta of a part replaces what there is of it. */
  connected() {
    this.#fresh.clear();
  }

  get(key) {
    return this.#parts.get(key);
  }

  /** The keys of what is written in a message. */
  of(messageId) {
    return [...this.#parts].filter(([, part]) => part.messageId === messageId).map(([key]) => key);
  }

  /** Takes a delta of a text, of reasoning or of a call's arguments. False where it leaves a hole. */
  put(type, { part_id: id, message_id: messageId, index, name, offset, text }) {
    if (!this.#fresh.has(id)) {
      this.#parts.set(id, { type, messageId, index, name, written: new OpenText() });
      this.#fresh.add(id);
    }
    if (!this.#parts.get(id).written.put(offset, text)) return false;
    this.#onChange(id);
    return true;
  }

  /** Takes a piece of a running call's output. */
  putOutput({ call_id: callId, offset, text }) {
    const open = this.#parts.get(callId) ?? { type: "output", written: new Preview() };
    this.#parts.set(callId, open);
    open.written.put(offset, text);
    this.#onChange(callId);
  }

  drop(key) {
    this.#parts.delete(key);
    this.#fresh.delete(key);
  }
}
