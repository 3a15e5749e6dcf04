/** Loads the page, and loads it again where some of it did not come: a browser drops what it has asked for when a network
 * of its machine comes or goes, and a module that failed stays failed. */

const TRIES = "palimpsest-starts";
const MOST = 3;
const PAUSE_MS = 500;

function failed(error) {
  const tries = Number(sessionStorage.getItem(TRIES)) + 1;
  sessionStorage.setItem(TRIES, String(tries));
  if (tries < MOST) {
    setTimeout(() => location.reload(), PAUSE_MS * tries);
    return;
  }
  sessionStorage.removeItem(TRIES);
  const said = document.createElement("p");
  said.setAttribute("role", "alert");
  said.textContent = `The page could not be loaded (${error.message}). Load it again.`;
  document.getElementById("page").replaceChildren(said);
}

import("./main.js").then(() => sessionStorage.removeItem(TRIES), failed);
