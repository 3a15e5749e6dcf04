/** The login: a key is given once, and from then on a cookie stands for it that no script can read. */

import { Button } from "../components/basic.js";
import { needsKey, post, remove } from "../core/http.js";
import { html, signal, useEffect, useRef, useState } from "../core/ui.js";

const STORED = "palimpsest.logged-in";

/** Whether this browser has logged in. The cookie itself cannot be seen, so that is noted beside it. */
const loggedIn = signal(stored());

addEventListener("storage", ({ key }) => {
  if (key === STORED || key === null) loggedIn.value = stored();
});

/** A form that asks for an API key of the server; the page goes on once one was right. */
export function Login() {
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const field = useRef(null);
  useEffect(() => field.current.focus(), []);
  async function submit(event) {
    event.preventDefault();
    const key = field.current.value.trim();
    if (busy) return;
    setProblem(null);
    setBusy(true);
    try {
      await logIn(key);
    } catch (failed) {
      setProblem(failed);
      setBusy(false);
      field.current.select();
    }
  }
  return html`<main class="page login">
    <h1>Palimpsest</h1>
    <form class="field" onSubmit=${submit}>
      <p id="login-about">This server wants one of its API keys. It is sent once and not kept in this browser.</p>
      <input hidden readonly name="username" autocomplete="username" value="palimpsest" />
      <label for="login-key">API key</label>
      <input
        id="login-key"
        ref=${field}
        type="password"
        name="password"
        autocomplete="current-password"
        autocapitalize="off"
        spellcheck=${false}
        required
        aria-describedby="login-about"
        aria-invalid=${problem !== null}
      />
      <button class="primary" disabled=${busy} aria-busy=${busy}>Log in</button>
      ${problem && html`<p class="failure" role="alert">${problem.message}</p>`}
    </form>
  </main>`;
}

/** Ends the login; shown only where there is one. */
export function LogoutButton() {
  if (!loggedIn.value) return null;
  return html`<${Button} kind="plain" onClick=${logOut}>Log out<//>`;
}

async function logIn(key) {
  await post("/v1/login", { key });
  note(true);
  needsKey.value = false;
}

async function logOut() {
  await remove("/v1/login");
  note(false);
  // Whatever was loaded goes with it.
  location.reload();
}

function note(isLoggedIn) {
  loggedIn.value = isLoggedIn;
  try {
    if (isLoggedIn) localStorage.setItem(STORED, "yes");
    else localStorage.removeItem(STORED);
  } catch {
    // A browser that stores nothing keeps no note over a reload; the cookie does not need it.
  }
}

function stored() {
  try {
    return localStorage.getItem(STORED) !== null;
  } catch {
    return false;
  }
}
