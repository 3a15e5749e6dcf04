/** The newest run of a session, for its limits: its start, end and steps. */

import { get, sessionPath } from "../core/http.js";
import { signal } from "../core/ui.js";

const PAGE = 500;
const TYPES = "session.running,session.idle";

export class RunMeter {
  /** `{startedAt, endedAt, steps}`, times in ms; `endedAt` and `steps` are null while the run is active. Null before
   * the first run. */
  run = signal(null);
  #id;
  #after = 0;

  constructor(id) {
    this.#id = id;
  }

  /** Continues where the previous load ended. Throws a Problem. */
  async load() {
    for (let cursor = this.#after; cursor !== null; ) {
      const page = await get(`${sessionPath(this.#id, "log")}?types=${TYPES}&limit=${PAGE}&after=${cursor}`);
      for (const { type, data } of page.items) this.#apply(type, data);
      this.#after = page.next_cursor ?? page.last_seq;
      cursor = page.next_cursor;
    }
  }

  #apply(type, data) {
    const at = Date.parse(data.at);
    // A recovery continues the interrupted run.
    if (type === "session.running" && data.trigger !== "recovery") {
      this.run.value = { startedAt: at, endedAt: null, steps: null };
    } else if (type === "session.idle" && this.run.value) {
      this.run.value = { ...this.run.value, endedAt: at, steps: data.steps };
    }
  }
}

/** How many steps of the attempts belong to a run. */
export function stepsOf(run, attempts) {
  if (run.steps !== null) return run.steps;
  const own = attempts.filter(({ started_at }) => Date.parse(started_at) >= run.startedAt);
  return new Set(own.map(({ step }) => step)).size;
}
