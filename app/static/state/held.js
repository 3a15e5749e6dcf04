/** The messages that the page holds: a stretch of the session's, in order, that grows and shrinks at either end.
 *
 * Messages are values: one that changes is replaced by a new object in its signal, so that only its row is drawn again.
 * Results of tools are messages of their own in the history; here they are found by their call too. Voided attempts are
 * never held.
 */

import { batch, signal } from "../core/ui.js";

export class Held {
  /** Ids of the messages, in order; a new array whenever it changes. */
  order = signal([]);
  /** The seqs that the stretch reaches from and to; voided attempts count. */
  first = Infinity;
  last = 0;
  #messages = new Map();
  #results = new Map();

  /** The signal of a message that is held. */
  message(id) {
    return this.#messages.get(id);
  }

  /** The signal of a call's result: a tool_result part, or null while there is none. */
  result(callId) {
    let held = this.#results.get(callId);
    if (!held) {
      held = signal(null);
      this.#results.set(callId, held);
    }
    return held;
  }

  /** A call's result; null where there is none, or it is not held. */
  resultNow(callId) {
    return this.#results.get(callId)?.peek() ?? null;
  }

  /** Takes messages in at their places, or in place of themselves. */
  add(messages) {
    const added = [];
    for (const message of messages) {
      this.first = Math.min(this.first, message.seq);
      this.last = Math.max(this.last, message.seq);
      if (!message.voided_at && !this.#put(message)) added.push(message.id);
    }
    if (added.length === 0) return;
    const seq = (id) => this.#messages.get(id).peek().seq;
    const order = [...this.order.peek(), ...added];
    // Mostly they come at one end, where a sort has nothing to do.
    this.order.value = order.sort((one, other) => seq(one) - seq(other));
  }

  /** Whether the message was held before. */
  #put(message) {
    for (const part of message.parts) {
      if (part.type === "tool_result") this.result(part.call_id).value = part;
    }
    const held = this.#messages.get(message.id);
    if (held) held.value = message;
    else this.#messages.set(message.id, signal(message));
    return held !== undefined;
  }

  change(id, change) {
    const held = this.#messages.get(id);
    if (held) held.value = change(held.peek());
  }

  /** Takes a result of a call whose row is there, whether or not its message will be held. */
  putResult(part) {
    const held = this.#results.get(part.call_id);
    if (held) held.value = part;
  }

  /** Changes a result that is held. */
  changeResult(callId, change) {
    const held = this.#results.get(callId);
    if (held?.peek()) held.value = change(held.peek());
  }

  remove(id) {
    if (!this.#messages.has(id)) return;
    this.#forget(id);
    this.order.value = this.order.peek().filter((other) => other !== id);
  }

  /** Lets go of all messages and takes these. What is among both keeps its signals, since its row may look at them. */
  replace(messages) {
    const stay = new Set(messages.filter(({ voided_at: at }) => !at).map(({ id }) => id));
    const order = this.order.peek();
    batch(() => {
      for (const id of order) {
        if (!stay.has(id)) this.#forget(id);
      }
      for (const result of this.#results.values()) result.value = null;
      this.order.value = order.filter((id) => stay.has(id));
      this.first = Infinity;
      this.last = 0;
      this.add(messages);
    });
  }

  /** Keeps so many messages at one end and lets go of the others. Whether there were others. */
  keepFirst(count) {
    const order = this.order.peek();
    if (order.length <= count) return false;
    this.#keep(order.slice(0, count), order.slice(count));
    this.last = this.#messages.get(order[count - 1]).peek().seq;
    return true;
  }

  /** What is kept begins with no result, whose call would come back later without it: some more are kept then. */
  keepLast(count) {
    const order = this.order.peek();
    const message = (place) => this.#messages.get(order[place]).peek();
    let start = Math.max(0, order.length - count);
    while (start > 0 && message(start).role === "tool") start -= 1;
    if (start === 0) return false;
    this.first = message(start).seq;
    this.#keep(order.slice(start), order.slice(0, start));
    return true;
  }

  #keep(kept, gone) {
    for (const id of gone) this.#forget(id);
    this.order.value = kept;
  }

  #forget(id) {
    for (const part of this.#messages.get(id).peek().parts) {
      if (part.type === "tool_call") this.#results.delete(part.call_id);
    }
    this.#messages.delete(id);
  }
}

/** A message of which nothing has come yet, as the history shows it then. */
export function blank(id, seq, role, at) {
  return {
    ...{ id, seq, role, parts: [], tokens: 0, model: null, finish_reason: null, error: null },
    ...{ is_summary: false, round: null, voided_at: null, created_at: at },
  };
}

/** The parts with one put at its index, in place of itself if it was there. */
export function withPart(parts, part) {
  return [...parts.filter(({ id }) => id !== part.id), part].sort((one, other) => one.index - other.index);
}
