/** Calls of the public API: JSON in and out, problems as errors, a key asked for where the server wants one. */

import { signal } from "./ui.js";
import { Watch } from "./watch.js";

/** Whether the server has refused a call for want of a key; the page then shows the login. */
export const needsKey = signal(false);

/** An answer that is no 2xx, as RFC 9457 has it: `status`, `code`, `title`, `detail` and the code's own fields in
 * `body`. `code` is "unreachable" and `status` 0 where there was no answer at all. `retryAfterS` says in how many
 * seconds to try again, null where the server does not. */
export class Problem extends Error {
  constructor(status, body, retryAfterS = null) {
    super(body.detail || body.title || `The server answered ${status}.`);
    this.name = "Problem";
    this.status = status;
    this.code = body.code ?? "unknown";
    this.title = body.title ?? "";
    this.detail = body.detail ?? "";
    this.body = body;
    this.retryAfterS = retryAfterS;
  }

  /** Whether it may be over by itself, so that the same call can be tried again: no answer, no key, too many calls, a
   * fault of the server's. */
  get mayPass() {
    return this.status < 400 || this.status >= 500 || [401, 408, 429].includes(this.status);
  }
}

/** An answer that is read is given up when nothing of it has come for so long, in ms. */
export const ANSWER_MS = 30_000;

const AGAIN_MS = 300;
let answered = false;

/** Whether the server has ever answered a call of this page with what it asked for. */
export const hasAnswered = () => answered;

/** Milliseconds that the server's clock is ahead of the browser's; read from answers' Date. */
let skew = 0;

/** The server's time now, in milliseconds. */
export function serverNow() {
  return Date.now() + skew;
}

/** Sends a request and gives the response, whatever kind it is. Throws `Problem` unless it is a 2xx. */
export async function request(method, path, { body, headers = {}, signal: abort, raw } = {}) {
  const init = { method, headers: { ...headers }, signal: abort, credentials: "same-origin", cache: "no-store" };
  if (raw !== undefined) {
    init.body = raw;
  } else if (body !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  const response = await reached(path, init);
  const ahead = Date.parse(response.headers.get("Date") ?? "") - Date.now();
  // Its resolution is a second.
  if (!Number.isNaN(ahead)) skew = Math.abs(ahead) > 2000 ? ahead : 0;
  if (response.ok) {
    answered = true;
    return response;
  }
  const wait = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  const problem = new Problem(response.status, await problemOf(response), Number.isNaN(wait) ? null : wait);
  if (response.status === 401) needsKey.value = true;
  throw problem;
}

/** A browser drops what it has asked for when a network of its machine comes or goes, as one does with each container;
 * what only reads is asked for once more. */
async function reached(path, init, isAgain = false) {
  try {
    return await fetch(path, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    if (init.method === "GET" && !isAgain) {
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      return reached(path, init, true);
    }
    throw new Problem(0, UNREACHABLE);
  }
}

const UNREACHABLE = { code: "unreachable", detail: "The server cannot be reached." };
const SILENT = { code: "timeout", detail: "The server took too long to answer." };

async function problemOf(response) {
  try {
    return await response.json();
  } catch {
    return { title: response.statusText };
  }
}

/** Sends a request and gives the JSON that it is answered with, or null where there is none. What only reads is given
 * up when the server falls silent. */
export async function call(method, path, options) {
  if (method !== "GET") return jsonOf(await request(method, path, options));
  const abort = new AbortController();
  const watch = new Watch(ANSWER_MS, () => abort.abort(new Problem(0, SILENT)));
  try {
    const { body } = await request(method, path, { ...options, signal: abort.signal });
    return await jsonOf(new Response(body.pipeThrough(heardBy(watch))));
  } catch (error) {
    throw abort.signal.aborted ? abort.signal.reason : error;
  } finally {
    watch.stop();
  }
}

function heardBy(watch) {
  return new TransformStream({
    transform(chunk, through) {
      watch.heard();
      through.enqueue(chunk);
    },
  });
}

async function jsonOf(response) {
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch (error) {
    // The connection was lost in the middle of the answer.
    throw error instanceof TypeError ? new Problem(0, UNREACHABLE) : error;
  }
}

export const get = (path, options) => call("GET", path, options);
export const post = (path, body, options) => call("POST", path, { ...options, body: body ?? {} });
export const patch = (path, body) => call("PATCH", path, { body });
export const remove = (path) => call("DELETE", path);

/** A path of the API: `sessionPath(id, "queue", messageId)`. */
export function sessionPath(id, ...rest) {
  return ["/v1/sessions", id, ...rest].map((part, index) => (index ? encodeURIComponent(part) : part)).join("/");
}

/** The path of a file in a session's workspace. */
export function filePath(id, path) {
  return `${sessionPath(id, "files")}/${path.split("/").map(encodeURIComponent).join("/")}`;
}
