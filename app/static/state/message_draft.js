/** The draft of a message: kept until the server has accepted it, across views, reloads and lost connections. Its
 * images are too large to be stored, so a reload loses them. */

import { post, serverNow, sessionPath } from "../core/http.js";
import { batch, effect, signal } from "../core/ui.js";
import { uuid7 } from "../core/uuid.js";
import { Attachments, contentOf } from "./attachments.js";

/** How long after the last change a draft is stored, in ms. */
const STORE_MS = 300;
const drafts = new WeakMap();
/** Changed drafts that are not stored yet. Only these are referenced here, since a draft keeps its whole session state
 * in memory. */
const unstored = new Set();

addEventListener("pagehide", () => {
  for (const draft of unstored) draft.store();
});

/** The draft of a session, shared by all its views. */
export function draftOf(state) {
  if (!drafts.has(state)) drafts.set(state, new MessageDraft(state));
  return drafts.get(state);
}

/** Stores a text as the draft of a session that is not open yet. */
export function keepDraft(sessionId, text) {
  try {
    sessionStorage.setItem(keyOf(sessionId), JSON.stringify({ text }));
  } catch {
    // Storage is full or disabled.
  }
}

const keyOf = (sessionId) => `palimpsest.draft.${sessionId}`;

class MessageDraft {
  text = signal("");
  attachments = new Attachments();
  /** "steer", "follow_up" or "interrupt". */
  mode = signal("steer");
  sending = signal(false);
  /** Why sending failed, `{problem, at}`, with `at` in ms by the server's clock; or null. */
  failure = signal(null);
  #state;
  /** The id, text and images of the last attempt: a resend has the same id, so that the message is accepted once. */
  #attempt = null;
  #timer = null;

  constructor(state) {
    this.#state = state;
    this.#restore();
    // The message may be accepted although its response is lost: then the stream delivers it.
    effect(() => this.#lookForAttempt(state.queue.value, state.transcript.order.value));
  }

  write(text) {
    this.text.value = text;
    this.#storeSoon();
  }

  choose(mode) {
    this.mode.value = mode;
    this.#storeSoon();
  }

  /** Appends a text to the draft. */
  append(text) {
    const written = this.text.value.trimEnd();
    this.write(written ? `${written}\n\n${text}` : text);
  }

  /** Sends the text and the images. A failure is stored in `failure`, and they are kept. */
  async send() {
    const images = this.attachments.items.value;
    const content = this.text.value;
    if (this.sending.value || (!content.trim() && images.length === 0)) return;
    const attempt = (this.#attempt = this.#next(content, images.map(({ key }) => key)));
    this.store();
    this.sending.value = true;
    this.failure.value = null;
    try {
      const whole = await contentOf(content, images);
      await post(sessionPath(this.#state.id, "queue"), { id: attempt.id, content: whole, mode: this.mode.value });
      this.#accepted(attempt);
      // The message is sent, so a failure to load what followed does not concern it.
      this.#state.transcript.followNewest().catch(() => {});
    } catch (problem) {
      if (this.#attempt === attempt) this.#failed(problem);
    } finally {
      this.sending.value = false;
    }
  }

  /** The last attempt, if it had the same text and images; otherwise a new one. */
  #next(content, images) {
    const last = this.#attempt;
    const isSame = last?.content === content && (last.images ?? []).join() === images.join();
    return isSame ? last : { id: uuid7(), content, images };
  }

  #failed(problem) {
    if (problem.code === "id_in_use") this.#attempt = null;
    this.failure.value = { problem, at: serverNow() };
  }

  #lookForAttempt(queue, order) {
    const attempt = this.#attempt;
    if (!attempt) return;
    if (queue.some(({ id }) => id === attempt.id) || order.includes(attempt.id)) this.#accepted(attempt);
  }

  /** Text and images added while the message was being sent are kept. */
  #accepted(attempt) {
    if (this.#attempt !== attempt) return;
    this.#attempt = null;
    batch(() => {
      const text = this.text.peek();
      if (text.startsWith(attempt.content)) this.text.value = text.slice(attempt.content.length).trimStart();
      this.attachments.remove(...(attempt.images ?? []));
      if (this.mode.peek() === "interrupt") this.mode.value = "steer";
      this.failure.value = null;
    });
    this.store();
  }

  get #key() {
    return keyOf(this.#state.id);
  }

  #restore() {
    try {
      const stored = JSON.parse(sessionStorage.getItem(this.#key) ?? "{}");
      this.text.value = stored.text ?? "";
      this.mode.value = stored.mode ?? "steer";
      this.#attempt = stored.attempt ?? null;
    } catch {
      // No storage, or invalid data: the draft starts empty.
    }
  }

  #storeSoon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.store(), STORE_MS);
    unstored.add(this);
  }

  /** Stores the draft at once. */
  store() {
    clearTimeout(this.#timer);
    unstored.delete(this);
    const kept = { text: this.text.peek(), mode: this.mode.peek(), attempt: this.#attempt };
    try {
      if (kept.text || kept.attempt) sessionStorage.setItem(this.#key, JSON.stringify(kept));
      else sessionStorage.removeItem(this.#key);
    } catch {
      // Storage is full or disabled: the draft lives as long as the page.
    }
  }
}
