/** Calls to the public API: JSON in and out, problems as errors, a login if the server needs an API key. */

import { signal } from "./ui.js";
import { Watch } from "./watch.js";

/** Whether the server rejected a call with 401; the page then shows the login. */
export const needsKey = signal(false);

/** A non-2xx response as RFC 9457 problem details: `status`, `code`, `title`, `detail`, and the code's own fields in
 * `body`. Without a response `status` is 0 and `code` "unreachable" or "timeout". `retryAfterS` is the server's
 * Retry-After in seconds, or null. */
export class Problem extends Error {
  constructor(status, body, retryAfterS = null) {
    super(body.detail || body.title || `The server responded with status ${status}.`);
    this.name = "Problem";
    this.status = status;
    this.code = body.code ?? "unknown";
    this.title = body.title ?? "";
    this.detail = body.detail ?? "";
    this.body = body;
    this.retryAfterS = retryAfterS;
  }

  /** Whether the problem may be temporary, so that a retry makes sense: no response, no key, too many requests, a
   * server error. */
  get mayPass() {
    return this.status < 400 || this.status >= 500 || [401, 408, 429].includes(this.status);
  }
}

/** A read is aborted after this many ms without data. */
export const ANSWER_MS = 30_000;

const RETRY_MS = 300;
let answered = false;

/** Whether any call of this page has succeeded. */
export const hasAnswered = () => answered;

/** How far the server's clock is ahead of the browser's, in ms; from the Date header. */
let skew = 0;

/** The server's current time, in ms. */
export function serverNow() {
  return Date.now() + skew;
}

/** Sends a request and returns the response. Throws `Problem` unless it is 2xx. */
export async function request(method, path, { body, headers = {}, signal: abort, raw } = {}) {
  const init = { method, headers: { ...headers }, signal: abort, credentials: "same-origin", cache: "no-store" };
  if (raw !== undefined) {
    init.body = raw;
  } else if (body !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  const response = await reached(path, init);
  const ahead = Date.parse(response.headers.get("Date") ?? "") - (response.arrivedAt ?? Date.now());
  // The header has a resolution of one second.
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

/** A browser drops its requests when a network interface of its machine comes or goes, as with each container; GET
 * requests are retried once. */
async function reached(path, init, isAgain = false) {
  try {
    return await (takeSent(path, init) ?? fetch(path, init));
  } catch (error) {
    if (init.signal?.aborted) throw error;
    if (init.method === "GET" && !isAgain) {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      return reached(path, init, true);
    }
    throw new Problem(0, UNREACHABLE);
  }
}

/** The response to a request that start.js has already sent, with the time at which it arrived. */
function takeSent(path, { method, signal: abort }) {
  const sent = method === "GET" ? globalThis.sentRequests?.get(path) : undefined;
  if (!sent) return undefined;
  globalThis.sentRequests.delete(path);
  const pass = () => sent.abort.abort(abort.reason);
  if (abort?.aborted) pass();
  abort?.addEventListener("abort", pass, { once: true });
  return sent.response;
}

/** Aborts the requests of start.js that no view has taken. */
export function dropSent() {
  for (const { abort } of globalThis.sentRequests?.values() ?? []) abort.abort();
  globalThis.sentRequests?.clear();
}

const UNREACHABLE = { code: "unreachable", detail: "The server cannot be reached." };
const SILENT = { code: "timeout", detail: "The server took too long to respond." };

async function problemOf(response) {
  try {
    return await response.json();
  } catch {
    return { title: response.statusText };
  }
}

/** Sends a request and returns the JSON of the response, or null if it has no body. GET requests are aborted when the
 * server stops sending data. */
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
    // The connection was lost in the middle of the response.
    throw error instanceof TypeError ? new Problem(0, UNREACHABLE) : error;
  }
}

export const get = (path, options) => call("GET", path, options);
export const post = (path, body, options) => call("POST", path, { ...options, body: body ?? {} });
export const patch = (path, body) => call("PATCH", path, { body });
export const remove = (path) => call("DELETE", path);

/** An API path: `sessionPath(id, "queue", messageId)`. */
export function sessionPath(id, ...rest) {
  return ["/v1/sessions", id, ...rest].map((part, index) => (index ? encodeURIComponent(part) : part)).join("/");
}

/** The path of a file in a session's workspace. */
export function filePath(id, path) {
  return `${sessionPath(id, "files")}/${path.split("/").map(encodeURIComponent).join("/")}`;
}
