/** Follows an event stream for as long as it is wanted: through lost connections, restarts and a sleeping laptop.
 *
 * EventSource would do some of this, but it sends no headers of ours, hides the status that a server refused with, and
 * gives up for good on some. So the stream is read with fetch.
 */

import { Problem, request, serverNow } from "./http.js";
import { Patience } from "./patience.js";
import { EventParser } from "./sse.js";
import { signal } from "./ui.js";
import { Watch } from "./watch.js";

/** The server writes at least a comment every 15 s; a connection silent for longer than this, in ms, is dead. */
export const SILENT_MS = 40_000;
/** A page that was hidden for longer than this, in ms, lets go of its connection until somebody looks at it again. Over
 * HTTP/1.1 a browser has six for a host, and pages that nobody sees would leave none for the calls of the one in sight. */
export const HIDDEN_MS = 30_000;
/** A durable event older than this, in ms, when it comes, means that the page is behind. */
const BEHIND_MS = 3_000;

/** A stream that is followed.
 *
 * `state` is a signal: "connecting", "live", "behind" (older events still come in), "offline" (no connection; tried
 * again at `retryAt`, in ms), "closed"; one that rests because nobody looks keeps what it was. `lastId` is the newest
 * durable event's seq.
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
  #patience = new Patience();
  /** A page that is opened behind another one begins when it is first seen. */
  #isResting = isHidden();
  #hiding = null;
  #seen = () => {};

  /** `onEvents(events)` gets the events of one read together, each `{seq, type, data}`, `seq` null for a live one;
   * `onConnected()` is called on each new connection before its events. `onLost(problem)` is told of a refusal that
   * trying again cannot mend (404, 409, …), after which the follower is closed. */
  constructor(path, { after = null, onEvents, onConnected = () => {}, onLost = () => {} }) {
    this.#path = path;
    this.lastId = after;
    this.#onEvents = onEvents;
    this.onConnected = onConnected;
    this.#onLost = onLost;
    document.addEventListener("visibilitychange", this.#look);
    this.#begin();
  }

  stop() {
    this.#stopped = true;
    this.state.value = "closed";
    this.#abort?.abort();
    this.#patience.end();
    clearTimeout(this.#hiding);
    this.#seen();
    document.removeEventListener("visibilitychange", this.#look);
  }

  /** Reads the stream again from the newest durable event. */
  reconnect() {
    this.#abort?.abort();
  }

  /** Ends the wait before the next try. */
  tryNow() {
    this.#patience.end();
  }

  #look = () => {
    clearTimeout(this.#hiding);
    if (isHidden()) {
      this.#hiding = setTimeout(() => this.#rest(), HIDDEN_MS);
    } else {
      this.#isResting = false;
      this.#seen();
    }
  };

  #rest() {
    this.#isResting = true;
    this.#abort?.abort();
  }

  async #begin() {
    if (this.#isResting) await this.#untilSeen();
    await this.#run();
  }

  async #run() {
    while (!this.#stopped) {
      let failure = null;
      try {
        await this.#connection();
      } catch (error) {
        if (error instanceof Problem && !error.mayPass) {
          this.stop();
          this.#onLost(error);
          return;
        }
        failure = error;
      }
      if (!this.#stopped && !this.#isResting) await this.#pause(failure);
      if (!this.#stopped && this.#isResting) await this.#untilSeen();
    }
  }

  async #untilSeen() {
    await new Promise((resolve) => (this.#seen = resolve));
    if (!this.#stopped) this.state.value = "connecting";
  }

  async #connection() {
    this.#abort = new AbortController();
    const headers = { Accept: "text/event-stream" };
    if (this.lastId !== null) headers["Last-Event-ID"] = String(this.lastId);
    const watch = new Watch(SILENT_MS, () => this.#abort.abort());
    try {
      const response = await request("GET", this.#path, { headers, signal: this.#abort.signal });
      this.#patience.reset();
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
    const parser = new EventParser((event) => batch.push(...parsed(event)));
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
    try {
      this.#onEvents(events);
    } catch (error) {
      // A fault of the page's own is none of the connection's: the same events again would only bring it again.
      console.error(error);
    }
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

  async #pause(failure) {
    const wait = this.#patience.next(failure);
    this.state.value = "offline";
    this.retryAt.value = Date.now() + wait;
    await this.#patience.wait(wait);
    if (!this.#stopped) this.state.value = "connecting";
  }
}

const isHidden = () => document.visibilityState === "hidden";

/** The event, in a list; none where its data cannot be read. */
function parsed({ id, type, data }) {
  try {
    return [{ seq: id === null ? null : Number(id), type, data: JSON.parse(data) }];
  } catch (error) {
    console.error(error);
    return [];
  }
}
