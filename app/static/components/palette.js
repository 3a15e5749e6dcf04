/** Goes to a session or runs an action, chosen by a few letters. */

import { Dialog, StatusBadge } from "./basic.js";
import { Choices, useFound } from "./choices.js";
import { nameOf } from "../core/format.js";
import { get } from "../core/http.js";
import { go, route, sessionLink, VIEWS } from "../core/router.js";
import { theme, THEMES } from "../core/theme.js";
import { html, useState } from "../core/ui.js";
import { newSession, overlay, search } from "../state/keys.js";
import { matches } from "../state/session_order.js";

/** Sessions that are shown at a time. */
const MOST = 8;
const PAUSE_MS = 120;

export function Palette({ onClose }) {
  const [text, setText] = useState("");
  const q = text.trim();
  const [page, problem] = useFound(q, sessionsWith, PAUSE_MS);
  const close = (run) => () => {
    onClose();
    run();
  };
  const actions = actionsNow().filter(({ label }) => label.toLowerCase().includes(q.toLowerCase()));
  // Those found for an earlier text are shown as far as they match: Enter must not choose another one.
  const found = (page?.items ?? []).filter((session) => matches(session, { q }));
  const items = [
    ...found.map((session) => ({
      key: session.id,
      content: html`<span class="choice-name">${nameOf(session)}</span> <${StatusBadge} session=${session} />`,
      choose: close(() => go(sessionLink(session.id))),
    })),
    ...actions.map(({ label, run }) => ({ key: label, content: label, choose: close(run) })),
  ];
  const empty = problem?.message ?? (page ? `Nothing matches “${text}”` : "Loading…");
  return html`<${Dialog} title="Go to" onClose=${onClose}>
    <${Choices} label="Find a session or an action" text=${text} onText=${setText} items=${items} empty=${empty} />
  <//>`;
}

function sessionsWith(q) {
  return get(`/v1/sessions?${new URLSearchParams({ sort: "activity", limit: MOST, ...(q && { q }) })}`);
}

/** The actions that are possible on the current page. */
function actionsNow() {
  const { page, id } = route.value;
  const views = VIEWS.map((view) => ({ label: `Show ${view}`, run: () => go(sessionLink(id, view)) }));
  return [
    { label: "New session", run: newSession },
    ...(page === "session" ? [{ label: "Search this session", run: search }, ...views] : []),
    { label: "All sessions", run: () => go("#/") },
    { label: "Sessions that need you", run: () => go("#/?status=needs_attention") },
    { label: "Usage of all sessions", run: () => go("#/usage") },
    { label: "Settings", run: () => go("#/settings") },
    { label: "Keyboard shortcuts", run: () => (overlay.value = "help") },
    ...THEMES.map((name) => ({ label: `Theme: ${name}`, run: () => (theme.value = name) })),
  ];
}
