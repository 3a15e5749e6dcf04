/** Follows an event stream until it is stopped, through lost connections, restarts and a sleeping laptop.
 *
 * EventSource would do some of this, but it sends no custom headers, hides the HTTP status of an error response, and
 * gives up permanently on some. So the stream is read with fetch.
 */

import { Problem, request, serverNow } from "./http.js";
import { Backoff } from "./backoff.js";
import { EventParser } from "./sse.js";
import { signal } from "./ui.js";
import { Watch } from "./watch.js";

/** The server writes at least a comment every 15 s; a connection silent for longer than this (ms) is dead. */
export const SILENT_MS = 40_000;
/** A page hidden for longer than this (ms) closes its connection until it is visible again. Over HTTP/1.1 a browser
 * opens six connections per host, and hidden pages would leave none for the requests of the visible one. */
export const HIDDEN_MS = 30_000;
/** If a durable event is older than this (ms) when it arrives, the page is behind. */
const BEHIND_MS = 3_000;

/** A followed stream.
 *
 * `state` is a signal: "connecting", "live", "behind" (older events are still arriving), "offline" (no connection;
 * retried at `retryAt`, in ms), "closed"; a follower paused because its page is hidden keeps its last state. `lastId`
 * is the newest durable event's seq.
 */
export class Follower {
  state = signal("connecting");
  retryAt = signal(null);
  lastId;
  #path;
  #onEvents;
  #onLost;
  #staysOpen;
  #stopped = false;
  #abort = null;
  #backoff = new Backoff();
  /** A page opened in the background starts when it is first visible. */
  #isResting = isHidden();
  #hiding = null;
  #seen = () => {};

  /** `onEvents(events)` gets all events of one read, each `{seq, type, data}`, with `seq` null for live events;
   * `onConnected()` is called on each new connection before its events. `onLost(problem)` is called with an error that
   * retrying cannot fix (404, 409, …), after which the follower is closed. `staysOpen()` says whether a hidden page
   * keeps its connection. */
  constructor(path, { after = null, onEvents, onConnected = () => {}, onLost = () => {}, staysOpen = () => false }) {
    this.#path = path;
    this.lastId = after;
    this.#onEvents = onEvents;
    this.onConnected = onConnected;
    this.#onLost = onLost;
    this.#staysOpen = staysOpen;
    document.addEventListener("visibilitychange", this.#look);
    this.#begin();
  }

  stop() {
    this.#stopped = true;
    this.state.value = "closed";
    this.#abort?.abort();
    this.#backoff.end();
    clearTimeout(this.#hiding);
    this.#seen();
    document.removeEventListener("visibilitychange", this.#look);
  }

  /** Reopens the stream after the newest durable event. */
  reconnect() {
    this.#abort?.abort();
  }

  /** Retries without waiting any longer. */
  tryNow() {
    this.#backoff.end();
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
    if (this.#staysOpen()) return;
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
      this.#backoff.reset();
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
      // A bug in the page is no reason to reconnect: the same events would only trigger it again.
      console.error(error);
    }
    if (!durable) return;
    this.lastId = durable.seq;
    this.state.value = serverNow() - Date.parse(durable.data.at) > BEHIND_MS ? "behind" : "live";
    // The last event of a backlog is old too: a newer one, or none for a while, shows that the page has caught up.
    if (this.state.value === "behind") this.#caughtUp();
  }

  #caughtUp() {
    const seen = this.lastId;
    setTimeout(() => {
      if (this.lastId === seen && this.state.value === "behind") this.state.value = "live";
    }, 300);
  }

  async #pause(failure) {
    const wait = this.#backoff.next(failure);
    this.state.value = "offline";
    this.retryAt.value = Date.now() + wait;
    await this.#backoff.wait(wait);
    if (!this.#stopped) this.state.value = "connecting";
  }
}

const isHidden = () => document.visibilityState === "hidden";

/** The event in a list, which is empty if the data is not valid JSON. */
function parsed({ id, type, data }) {
  try {
    return [{ seq: id === null ? null : Number(id), type, data: JSON.parse(data) }];
  } catch (error) {
    console.error(error);
    return [];
  }
}
