/** Loads the page, and reloads it if a module fails to load: a browser drops its requests when a network interface of
 * its machine comes or goes, and a module that failed stays failed. */

const TRIES = "palimpsest-starts";
const MAX_TRIES = 3;
const PAUSE_MS = 500;

function failed(error) {
  const tries = Number(sessionStorage.getItem(TRIES)) + 1;
  sessionStorage.setItem(TRIES, String(tries));
  if (tries < MAX_TRIES) {
    setTimeout(() => location.reload(), PAUSE_MS * tries);
    return;
  }
  sessionStorage.removeItem(TRIES);
  const notice = document.createElement("p");
  notice.setAttribute("role", "alert");
  notice.textContent = `The page could not be loaded (${error.message}). Reload it.`;
  document.getElementById("page").replaceChildren(notice);
}

import("./main.js").then(() => sessionStorage.removeItem(TRIES), failed);
