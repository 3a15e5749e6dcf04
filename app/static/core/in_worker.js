/** Parses model and file texts off the main thread and for a limited time: the libraries take minutes for a few
 * kilobytes of some patterns, and only terminating their thread stops them. */

/** How long a task may take once everything it needs is loaded, in ms. The page stays responsive meanwhile, so this is
 * far more than usual texts take on a slow machine. */
const LIMIT_MS = 2_000;

const ADDRESS = new URL("../worker.js", import.meta.url).href;
/** The only Trusted Types policy that the server allows. It returns this address for any input. */
const policy = globalThis.trustedTypes?.createPolicy("worker", { createScriptURL: () => ADDRESS });

/** A worker that starts with its first task, runs one task at a time, and is terminated if a task takes too long. */
export class BoundedWorker {
  #worker = null;
  #waiting = [];
  #current = null;
  #timer = null;

  /** Runs a task of `worker.js` and resolves to its result, or to null if it took too long or failed. */
  run(task, ...args) {
    return new Promise((resolve) => {
      this.#waiting.push({ message: [task, ...args], resolve });
      this.#next();
    });
  }

  #next() {
    if (this.#current || this.#waiting.length === 0) return;
    // The newest first: it is what is visible.
    this.#current = this.#waiting.pop();
    this.#worker ??= this.#started();
    this.#worker.postMessage(this.#current.message);
  }

  #started() {
    const worker = new Worker(policy?.createScriptURL("") ?? ADDRESS, { type: "module" });
    worker.onmessage = ({ data }) => {
      if (data.started) this.#timer = setTimeout(() => this.#stop(), LIMIT_MS);
      else this.#finish(data.result);
    };
    worker.onerror = worker.onmessageerror = () => this.#stop();
    return worker;
  }

  #stop() {
    this.#worker.terminate();
    this.#worker = null;
    this.#finish(null);
  }

  #finish(result) {
    clearTimeout(this.#timer);
    const { resolve } = this.#current;
    this.#current = null;
    resolve(result);
    this.#next();
  }
}
