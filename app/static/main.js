/** The page: its frame, and the view named by the address. */

import { Notes } from "./components/basic.js";
import { Icon } from "./components/icon.js";
import { Overlays } from "./components/overlays.js";
import { ThemeChooser } from "./components/theme_chooser.js";
import { dropSent, hasAnswered, needsKey } from "./core/http.js";
import { route } from "./core/router.js";
import { html, render, useLayoutEffect } from "./core/ui.js";
import { notifies } from "./state/notices.js";
import { list } from "./state/sessions.js";
import { Login, LoginDialog, LogoutButton } from "./views/login.js";
import { Sessions } from "./views/sessions.js";
import { SessionView } from "./views/session.js";
import { SettingsView } from "./views/settings.js";
import { UsageView } from "./views/usage.js";

function Page() {
  // Once the page shows data, a login opens on top of it instead of replacing it.
  const isLogin = needsKey.value && !hasAnswered();
  useList(!isLogin);
  if (isLogin) return html`<${Login} />`;
  const { page, id } = route.value;
  const current = (name) => (page === name ? "page" : undefined);
  return html`<header class="top">
      <a class="brand" href="#/"><${Icon} name="mark" /><span>Palimpsest</span></a>
      <nav aria-label="Pages">
        <a href="#/" aria-current=${current("sessions")}>Sessions</a>
        <a href="#/usage" aria-current=${current("usage")}>Usage</a>
        <a href="#/settings" aria-current=${current("settings")}>Settings</a>
      </nav>
      <${ThemeChooser} />
      <${LogoutButton} />
    </header>
    ${page === "session" && html`<${SessionView} key=${id} id=${id} />`}
    ${page === "sessions" && html`<${Sessions} />`}
    ${page === "usage" && html`<${UsageView} />`}
    ${page === "settings" && html`<${SettingsView} />`}
    <${Notes} />
    <${Overlays} />
    ${needsKey.value && html`<${LoginDialog} />`}`;
}

/** Keeps the list of sessions current while it is shown, or notifies the user. */
function useList(mayLoad) {
  const isNeeded = mayLoad && (route.value.page === "sessions" || notifies.value);
  // A layout effect, so that the requests are sent before the page is drawn.
  useLayoutEffect(() => {
    if (!isNeeded) return undefined;
    list.open();
    return () => list.close();
  }, [isNeeded]);
}

/** Refuses files dropped outside a drop target: the browser would open them in place of the page. */
function refuseFiles(event) {
  if (event.defaultPrevented || !event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = "none";
}

addEventListener("dragover", refuseFiles);
addEventListener("drop", refuseFiles);

/** How long the first view has to take the requests that were sent for it, in ms. */
const FIRST_VIEW_MS = 5_000;

const place = document.getElementById("page");
place.replaceChildren();
render(html`<${Page} />`, place);
setTimeout(dropSent, FIRST_VIEW_MS);
