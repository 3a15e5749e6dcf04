/** A session's transcript: messages loaded by page while the user scrolls, and kept up to date by events.
 *
 * Events received while a page is loading are applied again once it is loaded, since the page may be older than they
 * are. They are upserts, so applying one twice is harmless.
 */

import { batch, signal } from "../core/ui.js";
import { blank, Held, withPart } from "./held.js";
import { History } from "./history.js";
import { Marks } from "./marks.js";
import { Reading } from "./reading.js";
import { OpenParts } from "./streaming.js";

/** The maximum number of loaded messages; beyond it, those farthest from the current view are dropped. */
export const MOST = 4_000;
/** The maximum number of events kept while a page is loading; with more of them the page is requested again. */
const MOST_MEANWHILE = 1_000;

export class Transcript {
  /** Whether the session has messages before the first and after the last loaded one. */
  hasEarlier = signal(false);
  hasLater = signal(false);
  /** What is being loaded: "earlier", "later", "all", or null. */
  loading = signal(null);
  /** Why earlier or later messages could not be loaded, or null. */
  problem = signal(null);
  /** How many messages have arrived since the page was opened. */
  arrived = signal(0);
  /** The reading state. While the newest messages are followed, the oldest ones are dropped first. */
  reading = new Reading(this.arrived);
  #held = new Held();
  #history;
  #open = new OpenParts((key) => this.#soon(key));
  #previews = new Map();
  #dirty = new Set();
  #void = new Set();
  #frame = null;
  #newestSeq = 0;
  #load = 0;
  #meanwhile = null;
  #marks;

  constructor(sessionId) {
    this.#history = new History(sessionId);
    this.#marks = new Marks(this.#held, this.#history);
  }

  /** A signal of the ids of the loaded messages, in order. */
  get order() {
    return this.#held.order;
  }

  /** The signal of a loaded message. */
  message(id) {
    return this.#held.message(id);
  }

  /** The signal of a call's result: a tool_result part, or null. */
  result(callId) {
    return this.#held.result(callId);
  }

  /** The signal of a call's live output. */
  preview(callId) {
    if (!this.#previews.has(callId)) this.#previews.set(callId, signal(""));
    return this.#previews.get(callId);
  }

  /** Loads the newest messages and drops all others, given a recent `last_seq`. Returns the response's `last_seq`. */
  async loadNewest(lastSeq) {
    const page = await this.#loading("all", () => this.#history.newest(lastSeq), ({ items, more }) => {
      this.#held.replace(items);
      this.hasEarlier.value = more;
      this.hasLater.value = false;
    });
    this.#newestSeq = Math.max(this.#newestSeq, this.#held.last);
    return page?.lastSeq ?? 0;
  }

  /** Follows the newest message, which is loaded first if it is not held. */
  async followNewest() {
    if (this.hasLater.peek()) await this.loadNewest(this.#newestSeq);
    this.reading.follow(true);
  }

  /** Replaces the loaded messages with the session's first ones. */
  async loadOldest() {
    await this.#loading("all", () => this.#history.after(0), ({ items, more }) => {
      this.#held.replace(items);
      this.hasEarlier.value = false;
      this.hasLater.value = more;
    });
  }

  /** Loads the message with this seq and those around it, unless it is loaded. */
  async loadAround(seq) {
    const { first, last } = this.#held;
    if (seq >= first && (seq <= last || !this.hasLater.value)) return;
    await this.#loading("all", () => this.#history.around(seq), ({ items, more, hasEarlier }) => {
      this.#held.replace(items);
      this.hasEarlier.value = hasEarlier;
      this.hasLater.value = more;
    });
  }

  async loadEarlier() {
    if (!this.hasEarlier.value || this.loading.value) return;
    await this.#loading("earlier", () => this.#history.before(this.#held.first), ({ items, more }) => {
      this.#held.add(items);
      this.hasEarlier.value = more;
      if (this.#held.keepFirst(MOST)) this.hasLater.value = true;
    });
  }

  async loadLater() {
    if (!this.hasLater.value || this.loading.value) return;
    await this.#loading("later", () => this.#history.after(this.#held.last), ({ items, more }) => {
      this.#held.add(items);
      this.hasLater.value = more;
      if (this.#held.keepLast(MOST)) this.hasEarlier.value = true;
    });
  }

  /** A newer load, such as a full one, replaces a page load, whose response is then dropped. */
  async #loading(kind, fetch, take) {
    const load = (this.#load += 1);
    this.loading.value = kind;
    this.problem.value = null;
    try {
      let page;
      do {
        this.#meanwhile = [];
        page = await fetch();
        if (load !== this.#load) return null;
      } while (this.#meanwhile.length === MOST_MEANWHILE);
      batch(() => {
        take(page);
        for (const change of this.#meanwhile) change();
        this.#drawOpen(page.items);
      });
      return page;
    } catch (problem) {
      if (load === this.#load) this.problem.value = problem;
      throw problem;
    } finally {
      if (load === this.#load) {
        this.loading.value = null;
        this.#meanwhile = null;
      }
    }
  }

  // Event handlers. While later messages are not loaded, only changes to loaded messages are applied.

  #event(change) {
    if (this.#meanwhile?.length < MOST_MEANWHILE) this.#meanwhile.push(change);
    batch(change);
  }

  connected() {
    this.#open.connected();
  }

  created(message) {
    this.#event(() => this.#append(message));
  }

  stepStarted(seq, { message_id: id, at }) {
    this.#event(() => {
      if (!this.message(id)) this.#append(blank(id, seq, "assistant", at));
    });
  }

  #append(message) {
    if (message.seq > this.#newestSeq) {
      this.#newestSeq = message.seq;
      if (message.role !== "tool") this.arrived.value += 1;
    }
    const isHeld = this.message(message.id) !== undefined;
    if (!isHeld && !this.reading.isFollowed && this.order.peek().length >= MOST) this.hasLater.value = true;
    if (!isHeld && this.hasLater.value) return;
    this.#held.add([message]);
    if (this.reading.isFollowed && this.#held.keepLast(MOST)) this.hasEarlier.value = true;
  }

  /** The event reports how the step ended, the message how the model's answer ended. They agree if the step succeeded;
   * otherwise the message is reloaded. Parts that are still open were never stored. */
  stepFinished({ message_id: id, finish_reason: reason }) {
    this.flush();
    this.#event(() => {
      this.#dropOpen(id);
      const isPlain = reason === "stop" || reason === "tool_calls";
      this.#held.change(id, (message) => ({
        ...message,
        parts: message.parts.filter((part) => !part.open),
        finish_reason: isPlain ? reason : message.finish_reason,
      }));
      if (!isPlain) this.#loadEnd(id, reason);
    });
  }

  async #loadEnd(id, reason) {
    const held = this.message(id);
    if (!held) return;
    const stored = await this.#history.message(held.peek().seq).catch(() => null);
    const { finish_reason, error } = stored ?? { finish_reason: reason, error: null };
    this.#held.change(id, (message) => ({ ...message, finish_reason, error }));
  }

  /** Removes a retried attempt with all its parts. */
  voided({ message_id: id }) {
    this.#void.add(id);
    this.#event(() => {
      this.#dropOpen(id);
      this.#held.remove(id);
    });
  }

  #dropOpen(messageId) {
    for (const key of this.#open.of(messageId)) this.#close(key);
  }

  #close(key) {
    this.#open.drop(key);
    this.#dirty.delete(key);
  }

  /** Applies a live delta of a text, of reasoning or of a call's arguments. Returns false if it would leave a gap; the
   * stream must then be reopened. */
  delta(type, data) {
    if (this.#void.has(data.message_id)) return true;
    // In a cluster, text may come after the end of its part. A message may be loaded before that.
    const message = this.message(data.message_id)?.peek();
    const part = message?.parts.find(({ id }) => id === data.part_id);
    const hasEnded = part?.closed === true || (message?.finish_reason ?? null) !== null;
    return hasEnded || this.#open.put(type, data);
  }

  output(data) {
    if (!this.#held.resultNow(data.call_id)) this.#open.putOutput(data);
  }

  /** Stores a completed part: a text, reasoning or a call. */
  partCompleted(part, messageId) {
    this.#close(part.id);
    this.#event(() => {
      const closed = { ...part, closed: true };
      this.#held.change(messageId, (message) => ({ ...message, parts: withPart(message.parts, closed) }));
    });
  }

  /** `images` are those of the result, which are parts of its message. */
  resulted({ images, ...part }, messageId, seq, at) {
    this.#close(part.call_id);
    this.#previews.delete(part.call_id);
    this.#event(() => {
      const message = this.message(messageId)?.peek() ?? blank(messageId, seq, "tool", at);
      this.#held.putResult({ ...part, images });
      this.#append({ ...message, parts: [part, ...(images ?? [])].reduce(withPart, message.parts) });
    });
  }

  /** Marks results as pruned: the model now sees placeholders. */
  pruned(callIds, at) {
    this.#event(() => this.#marks.put(callIds, at));
    this.loadMarks();
  }

  /** Reloads the marks of all loaded messages, after a round or a revert has changed what the model sees. */
  loadMarks() {
    this.#marks.loadSoon();
  }

  /** Publishes at once all text received since the last frame. */
  flush() {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    const dirty = [...this.#dirty];
    this.#dirty.clear();
    batch(() => {
      for (const key of dirty) this.#draw(key);
    });
  }

  #soon(key) {
    this.#dirty.add(key);
    // A page in the background gets no frames, but there is never more to publish than one text per part.
    this.#frame ??= requestAnimationFrame(() => this.flush());
  }

  #drawOpen(messages) {
    for (const { id } of messages) {
      for (const key of this.#open.of(id)) this.#draw(key);
    }
  }

  #draw(key) {
    const open = this.#open.get(key);
    if (!open) return;
    const text = open.written.text;
    if (open.type === "output") {
      this.preview(key).value = text;
      return;
    }
    const part = { id: key, index: open.index, type: open.type, open: true };
    Object.assign(part, open.type === "tool_call" ? { name: open.name, written: text } : { text });
    this.#held.change(open.messageId, (message) => ({ ...message, parts: withPart(message.parts, part) }));
  }
}
