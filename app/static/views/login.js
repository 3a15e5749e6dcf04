/** Signing in: the API key is sent once and exchanged for a cookie that scripts cannot read. */

import { Button } from "../components/basic.js";
import { needsKey, post, remove } from "../core/http.js";
import { html, signal, useEffect, useLayoutEffect, useRef, useState } from "../core/ui.js";

const STORED = "palimpsest.logged-in";

/** Whether this browser is signed in. Scripts cannot see the cookie, so this is stored separately. */
const loggedIn = signal(stored());

addEventListener("storage", ({ key, newValue }) => {
  if (key !== STORED && key !== null) return;
  const was = loggedIn.value;
  loggedIn.value = stored();
  // All tabs share the cookie.
  if (loggedIn.value && newValue !== null) needsKey.value = false;
  else if (was && key === STORED) location.reload();
});

/** Asks for an API key until a valid one is entered. */
export function Login() {
  return html`<main class="page login">
    <h1>Palimpsest</h1>
    <${LoginForm} about="Enter an API key to sign in." />
  </main>`;
}

/** Asks for a key on top of the page when the login has expired: the page keeps its state but is blocked until then. */
export function LoginDialog() {
  const dialog = useRef(null);
  useLayoutEffect(() => {
    const element = dialog.current;
    element.showModal();
    return () => element.close();
  }, []);
  // Browsers eventually close a dialog even if that is prevented.
  const onClose = () => dialog.current?.showModal();
  const onCancel = (event) => event.preventDefault();
  return html`<dialog ref=${dialog} class="login" aria-label="Sign in" onCancel=${onCancel} onClose=${onClose}>
    <div class="dialog-body">
      <header><h2>Sign in</h2></header>
      <${LoginForm} about="You have been signed out. Enter an API key to sign in." />
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
    <p id="login-about">${about} It is sent once and not stored in this browser.</p>
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
    <button class="primary" aria-disabled=${busy ? "true" : undefined} aria-busy=${busy}>Sign in</button>
    ${problem && html`<p class="failure" role="alert">${problem.message}</p>`}
  </form>`;
}

/** Signs out; shown only if signed in. */
export function LogoutButton() {
  if (!loggedIn.value) return null;
  return html`<${Button} kind="plain" onClick=${logOut}>Sign out<//>`;
}

async function logIn(key) {
  await post("/v1/login", { key });
  note(true);
  needsKey.value = false;
}

async function logOut() {
  await remove("/v1/login");
  note(false);
  // Drops all loaded data.
  location.reload();
}

function note(isLoggedIn) {
  loggedIn.value = isLoggedIn;
  try {
    // A new value each time, since other tabs only get an event if it changes.
    if (isLoggedIn) localStorage.setItem(STORED, String(Date.now()));
    else localStorage.removeItem(STORED);
  } catch {
    // Without storage the note is lost on reload; the cookie does not depend on it.
  }
}

function stored() {
  try {
    return localStorage.getItem(STORED) !== null;
  } catch {
    return false;
  }
}
