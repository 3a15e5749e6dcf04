/** The loaded messages: a contiguous range of the session's, in order, that grows and shrinks at either end.
 *
 * Messages are immutable: a changed one is replaced by a new object in its signal, so that only its row is rerendered.
 * Tool results are separate messages in the history; here they can also be found by their call. Voided attempts are
 * never kept.
 */

import { batch, signal } from "../core/ui.js";

export class Held {
  /** The messages' ids, in order; a new array whenever it changes. */
  order = signal([]);
  /** The first and last seq of the range, including voided attempts. */
  first = Infinity;
  last = 0;
  #messages = new Map();
  #results = new Map();

  /** The signal of a loaded message. */
  message(id) {
    return this.#messages.get(id);
  }

  /** The signal of a call's result: a tool_result part, or null. */
  result(callId) {
    let held = this.#results.get(callId);
    if (!held) {
      held = signal(null);
      this.#results.set(callId, held);
    }
    return held;
  }

  /** A call's result; null if there is none or it is not loaded. */
  resultNow(callId) {
    return this.#results.get(callId)?.peek() ?? null;
  }

  /** Adds messages in order, or replaces them if they are already loaded. */
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
    // Usually they are added at one end, so the array is nearly sorted.
    this.order.value = order.sort((one, other) => seq(one) - seq(other));
  }

  /** Stores a message and returns whether it was already loaded. */
  #put(message) {
    for (const part of message.parts) {
      if (part.type === "tool_result") this.result(part.call_id).value = withImages(part, message.parts);
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

  /** Stores the result of a call that is shown, whether or not the result's message is loaded. */
  putResult(part) {
    const held = this.#results.get(part.call_id);
    if (held) held.value = part;
  }

  /** Changes a loaded result. */
  changeResult(callId, change) {
    const held = this.#results.get(callId);
    if (held?.peek()) held.value = change(held.peek());
  }

  /** Takes over what a stored message says about the context: the round that covers it, and what was cleared. */
  putMarks({ id, round, parts }) {
    if (this.#messages.get(id)?.peek().round !== round) this.change(id, (held) => ({ ...held, round }));
    for (const part of parts.filter(({ type }) => type === "tool_result")) {
      const { compacted_at, original_tokens, images } = withImages(part, parts);
      this.changeResult(part.call_id, (held) => ({ ...held, compacted_at, original_tokens, images }));
    }
    const images = new Map(parts.filter(({ type }) => type === "image").map((part) => [part.id, part]));
    if (images.size === 0) return;
    this.change(id, (held) => ({ ...held, parts: held.parts.map((part) => images.get(part.id) ?? part) }));
  }

  remove(id) {
    if (!this.#messages.has(id)) return;
    this.#forget(id);
    this.order.value = this.order.peek().filter((other) => other !== id);
  }

  /** Replaces all messages. Those in both sets keep their signals, since their rows may be subscribed. */
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

  /** Keeps the first `count` messages and drops the others. Returns whether there were others. */
  keepFirst(count) {
    const order = this.order.peek();
    if (order.length <= count) return false;
    this.#keep(order.slice(0, count), order.slice(count));
    this.last = this.#messages.get(order[count - 1]).peek().seq;
    return true;
  }

  /** Keeps the last `count` messages, or a few more so that the range does not begin with a tool result: its call,
   * loaded again later, would be without it. Returns whether there were others. */
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

/** A result with the images that belong to it, which are parts of its message. */
function withImages(result, parts) {
  return { ...result, images: parts.filter(({ type, of_call: call }) => type === "image" && call === result.call_id) };
}

/** A message without content, as in the history. */
export function blank(id, seq, role, at) {
  return {
    ...{ id, seq, role, parts: [], tokens: 0, model: null, finish_reason: null, error: null },
    ...{ is_summary: false, round: null, voided_at: null, created_at: at },
  };
}

/** The parts with one added or replaced, ordered by index. */
export function withPart(parts, part) {
  return [...parts.filter(({ id }) => id !== part.id), part].sort((one, other) => one.index - other.index);
}
