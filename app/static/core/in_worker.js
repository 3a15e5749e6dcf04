/** Work on texts of models and files, off the page's thread and for a limited time: a few kilobytes of some patterns
 * take the libraries minutes, and nothing but the end of their thread stops them. */

/** How long a task may take, in ms, from when all that it needs is loaded. The page answers meanwhile, so this is far
 * more than usual texts take on a slow machine. */
const LIMIT_MS = 2_000;

const ADDRESS = new URL("../worker.js", import.meta.url).href;
/** The one policy of trusted types that the server allows. Whatever it is given, it makes this address. */
const policy = globalThis.trustedTypes?.createPolicy("worker", { createScriptURL: () => ADDRESS });

/** A worker that is started by its first task, does one at a time, and is ended with one that takes too long. */
export class BoundedWorker {
  #worker = null;
  #waiting = [];
  #current = null;
  #timer = null;

  /** The result of one of the tasks in `worker.js`, or null where it took too long or failed. */
  run(task, ...args) {
    return new Promise((resolve) => {
      this.#waiting.push({ message: [task, ...args], resolve });
      this.#next();
    });
  }

  #next() {
    if (this.#current || this.#waiting.length === 0) return;
    // The newest first: it is what is in sight.
    this.#current = this.#waiting.pop();
    this.#worker ??= this.#started();
    this.#worker.postMessage(this.#current.message);
  }

  #started() {
    const worker = new Worker(policy?.createScriptURL("") ?? ADDRESS, { type: "module" });
    worker.onmessage = ({ data }) => {
      if (data.begins) this.#timer = setTimeout(() => this.#stop(), LIMIT_MS);
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
