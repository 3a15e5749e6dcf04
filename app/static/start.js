/** Loads the page, and reloads it if a module fails to load: a browser drops its requests when a network interface of
 * its machine comes or goes, and a module that failed stays failed. Meanwhile it requests the first view's data. */

const TRIES = "palimpsest-starts";
const MAX_TRIES = 3;
const PAUSE_MS = 500;

/** The requests of the list, once its stream is open, and of a session: the paths that state/sessions.js and
 * state/session.js request first. */
const STREAM = "/v1/events?activity=true";
const LIST = [
  "/v1/sessions?status=needs_attention&sort=activity&limit=500",
  "/v1/sessions?limit=500&sort=activity&status=running",
  "/v1/sessions?limit=50&sort=activity",
];
const SESSION = ["", "/queue", "/approvals", "/tool-calls?status=pending", "/compactions"];

/** Requests by path, `{response, abort}`, which core/http.js takes. */
const sent = (globalThis.sentRequests = new Map());

function send(path, headers = {}) {
  const abort = new AbortController();
  const init = { headers, signal: abort.signal, credentials: "same-origin", cache: "no-store" };
  const response = fetch(path, init).then((answer) => Object.assign(answer, { arrivedAt: Date.now() }));
  sent.set(path, { response, abort });
  return response;
}

async function sendFirst() {
  const [, id] = /^#\/sessions\/([\w-]+)/.exec(location.hash) ?? [];
  if (id) {
    await Promise.all([import("./core/markdown.js"), ...SESSION.map((path) => send(`/v1/sessions/${id}${path}`))]);
  } else if (["", "#/"].includes(location.hash)) {
    const { ok } = await send(STREAM, { Accept: "text/event-stream" });
    if (ok) await Promise.all(LIST.map((path) => send(path)));
  }
}

function failed(error) {
  const tries = Number(sessionStorage.getItem(TRIES)) + 1;
  sessionStorage.setItem(TRIES, String(tries));
  if (tries < MAX_TRIES) {
    setTimeout(() => location.reload(), PAUSE_MS * tries);
    return;
  }
  sessionStorage.removeItem(TRIES);
  for (const { abort } of sent.values()) abort.abort();
  const notice = document.createElement("p");
  notice.setAttribute("role", "alert");
  notice.textContent = `The page could not be loaded (${error.message}). Reload it.`;
  document.getElementById("page").replaceChildren(notice);
}

// A page in the background opens no stream. Failed requests are repeated by the view.
if (document.visibilityState === "visible") sendFirst().catch(() => {});
import("./main.js").then(() => sessionStorage.removeItem(TRIES), failed);
