/** The login: a key is given once, and from then on a cookie stands for it that no script can read. */

import { Button } from "../components/basic.js";
import { needsKey, post, remove } from "../core/http.js";
import { html, signal, useEffect, useLayoutEffect, useRef, useState } from "../core/ui.js";

const STORED = "palimpsest.logged-in";

/** Whether this browser has logged in. The cookie itself cannot be seen, so that is noted beside it. */
const loggedIn = signal(stored());

addEventListener("storage", ({ key, newValue }) => {
  if (key !== STORED && key !== null) return;
  const was = loggedIn.value;
  loggedIn.value = stored();
  // The cookie is one for all tabs.
  if (loggedIn.value && newValue !== null) needsKey.value = false;
  else if (was && key === STORED) location.reload();
});

/** Asks for an API key of the server; the page goes on once one was right. */
export function Login() {
  return html`<main class="page login">
    <h1>Palimpsest</h1>
    <${LoginForm} about="This server wants one of its API keys." />
  </main>`;
}

/** Asks for a key above the page, whose login is over: nothing on it is lost, and nothing can be done before. */
export function LoginDialog() {
  const dialog = useRef(null);
  useLayoutEffect(() => {
    const element = dialog.current;
    element.showModal();
    return () => element.close();
  }, []);
  // A browser closes a dialog in the end even where that is refused.
  const onClose = () => dialog.current?.showModal();
  const onCancel = (event) => event.preventDefault();
  return html`<dialog ref=${dialog} class="login" aria-label="Log in" onCancel=${onCancel} onClose=${onClose}>
    <div class="dialog-body">
      <header><h2>Log in</h2></header>
      <${LoginForm} about="The login is over, and this server wants one of its API keys again." />
    </div>
  </dialog>`;
}

function LoginForm({ about }) {
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
  return html`<form class="field" onSubmit=${submit}>
    <p id="login-about">${about} It is sent once and not kept in this browser.</p>
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
    <button class="primary" aria-disabled=${busy ? "true" : undefined} aria-busy=${busy}>Log in</button>
    ${problem && html`<p class="failure" role="alert">${problem.message}</p>`}
  </form>`;
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
    // Another value each time, since other tabs hear of a change alone.
    if (isLoggedIn) localStorage.setItem(STORED, String(Date.now()));
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
