/** Follows an event stream for as long as it is wanted: through lost connections, restarts and a sleeping laptop.
 *
 * EventSource would do some of this, but it sends no headers of ours, hides the status that a server refused with, and
 * gives up for good on some. So the stream is read with fetch.
 */

import { needsKey, Problem, request, serverNow } from "./http.js";
import { EventParser } from "./sse.js";
import { signal } from "./ui.js";

/** The server writes at least a comment every 15 s; a connection silent for longer than this, in ms, is dead. */
export const SILENT_MS = 40_000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;
/** A durable event older than this, in ms, when it comes, means that the page is behind. */
const BEHIND_MS = 3_000;

/** A stream that is followed.
 *
 * `state` is a signal: "connecting", "live", "behind" (older events still come in), "offline" (no connection; tried
 * again at `retryAt`, in ms), "closed". `lastId` is the newest durable event's seq.
 */
export class Follower {
  state = signal("connecting");
  retryAt = signal(null);
  lastId;
  #path;
  #onEvents;
  #onLost;
  #stopped = false;
  #abort = null;
  #wake = null;
  #waitMs = FIRST_WAIT_MS;

  /** `onEvents(events)` gets the events of one read together, each `{seq, type, data}`, `seq` null for a live one;
   * `onConnected()` is called on each new connection before its events. `onLost(problem)` is told of a refusal that
   * trying again cannot mend (404, 409, …), after which the follower is closed. */
  constructor(path, { after = null, onEvents, onConnected = () => {}, onLost = () => {} }) {
    this.#path = path;
    this.lastId = after;
    this.#onEvents = onEvents;
    this.onConnected = onConnected;
    this.#onLost = onLost;
    addEventListener("online", this.#hurry);
    document.addEventListener("visibilitychange", this.#hurry);
    this.#run();
  }

  stop() {
    this.#stopped = true;
    this.state.value = "closed";
    this.#abort?.abort();
    this.#wake?.();
    removeEventListener("online", this.#hurry);
    document.removeEventListener("visibilitychange", this.#hurry);
  }

  /** Reads the stream again from the newest durable event. */
  reconnect() {
    this.#abort?.abort();
  }

  /** Ends the wait before the next try. */
  tryNow() {
    this.#wake?.();
  }

  #hurry = () => {
    if (document.visibilityState === "visible") this.#wake?.();
  };

  async #run() {
    while (!this.#stopped) {
      try {
        await this.#connection();
      } catch (error) {
        if (error instanceof Problem && this.#isFinal(error)) {
          this.stop();
          this.#onLost(error);
          return;
        }
      }
      if (!this.#stopped) await this.#pause();
    }
  }

  #isFinal({ status }) {
    return status >= 400 && status < 500 && ![401, 408, 429].includes(status);
  }

  async #connection() {
    this.#abort = new AbortController();
    const headers = { Accept: "text/event-stream" };
    if (this.lastId !== null) headers["Last-Event-ID"] = String(this.lastId);
    const watch = new Watch(() => this.#abort.abort());
    try {
      const response = await request("GET", this.#path, { headers, signal: this.#abort.signal });
      this.#waitMs = FIRST_WAIT_MS;
      this.state.value = "live";
      this.retryAt.value = null;
      this.onConnected();
      await this.#read(response.body, watch);
    } finally {
      watch.stop();
    }
  }

  async #read(body, watch) {
    let batch = [];
    const parser = new EventParser((event) => batch.push(parsed(event)));
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    while (!this.#stopped) {
      const { done, value } = await reader.read();
      if (done) return;
      watch.heard();
      parser.feed(value);
      if (batch.length === 0) continue;
      const events = batch;
      batch = [];
      this.#take(events);
    }
  }

  #take(events) {
    const durable = events.findLast((event) => event.seq !== null);
    this.#onEvents(events);
    if (!durable) return;
    this.lastId = durable.seq;
    this.state.value = serverNow() - Date.parse(durable.data.at) > BEHIND_MS ? "behind" : "live";
    // The last of a backlog is old as well: what comes after it, or nothing for a while, says that we caught up.
    if (this.state.value === "behind") this.#caughtUp();
  }

  #caughtUp() {
    const seen = this.lastId;
    setTimeout(() => {
      if (this.lastId === seen && this.state.value === "behind") this.state.value = "live";
    }, 300);
  }

  async #pause() {
    const wait = (needsKey.value ? LONGEST_WAIT_MS : this.#waitMs) * (0.75 + Math.random() / 2);
    this.state.value = "offline";
    this.retryAt.value = Date.now() + wait;
    this.#waitMs = Math.min(LONGEST_WAIT_MS, this.#waitMs * 2);
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, wait);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = null;
    if (!this.#stopped) this.state.value = "connecting";
  }
}

function parsed({ id, type, data }) {
  return { seq: id === null ? null : Number(id), type, data: JSON.parse(data) };
}

/** Calls `onSilence` once nothing was heard for `SILENT_MS`. */
class Watch {
  #timer = null;
  #onSilence;

  constructor(onSilence) {
    this.#onSilence = onSilence;
    this.heard();
  }

  heard() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#onSilence, SILENT_MS);
  }

  stop() {
    clearTimeout(this.#timer);
  }
}
