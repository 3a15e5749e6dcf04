/** The page: its frame, and the view that the address names. */

import { Notes } from "./components/basic.js";
import { ThemeChooser } from "./components/theme_chooser.js";
import { needsKey } from "./core/http.js";
import { route } from "./core/router.js";
import { html, render } from "./core/ui.js";
import { Login, LogoutButton } from "./views/login.js";
import { Sessions } from "./views/sessions.js";
import { SessionView } from "./views/session.js";
import { UsageView } from "./views/usage.js";

function Page() {
  if (needsKey.value) return html`<${Login} />`;
  const { page, id } = route.value;
  const current = (name) => (page === name ? "page" : undefined);
  return html`<header class="top">
      <a class="brand" href="#/">Palimpsest</a>
      <nav aria-label="Pages">
        <a href="#/" aria-current=${current("sessions")}>Sessions</a>
        <a href="#/usage" aria-current=${current("usage")}>Usage</a>
      </nav>
      <${ThemeChooser} />
      <${LogoutButton} />
    </header>
    ${page === "session" && html`<${SessionView} key=${id} id=${id} />`}
    ${page === "sessions" && html`<${Sessions} />`}
    ${page === "usage" && html`<${UsageView} />`}
    <${Notes} />`;
}

render(html`<${Page} />`, document.getElementById("page"));
