/** One session: its header, the tabs of its views, and the view named by the address. */

import { Failure, StatusBadge } from "../components/basic.js";
import { ConnectionState } from "../components/connection.js";
import { Gauge } from "../components/gauge.js";
import { ImageViewer } from "../components/images.js";
import { isMarkdownLoaded, loadMarkdown } from "../components/markdown.js";
import { RunsOn } from "../components/nodes.js";
import { SessionActions } from "../components/session_actions.js";
import { SessionFacts } from "../components/session_facts.js";
import { nameOf, plain } from "../core/format.js";
import { route, sessionLink, VIEWS } from "../core/router.js";
import { title } from "../core/title.js";
import { html, useEffect, useLayoutEffect, useMemo } from "../core/ui.js";
import { search } from "../state/keys.js";
import { useSeen } from "../state/seen_ends.js";
import { SessionState } from "../state/session.js";
import { ChangesView } from "./changes.js";
import { ContextView } from "./context.js";
import { ConversationView } from "./conversation.js";
import { EventsView } from "./events.js";
import { FilesView } from "./files.js";
import { SessionUsageView } from "./session_usage.js";

const SHOWN = {
  conversation: ConversationView,
  context: ContextView,
  files: FilesView,
  changes: ChangesView,
  usage: SessionUsageView,
  events: EventsView,
};
const NAMES = {
  conversation: "Conversation",
  context: "Context",
  files: "Files",
  changes: "Changes",
  usage: "Usage",
  events: "Events",
};

export function SessionView({ id }) {
  const state = useMemo(() => new SessionState(id), [id]);
  // A layout effect, so that the requests are sent before the page is drawn.
  useLayoutEffect(() => {
    loadMarkdown();
    state.open();
    return () => state.close();
  }, [state]);
  const session = state.session.value;
  useEffect(() => {
    title.value = session ? nameOf(session) : "";
  }, [session && nameOf(session)]);
  useSeen(session);
  if (state.deleted.value) return html`<${Gone} />`;
  if (state.problem.value) {
    return html`<main class="page"><${Failed} problem=${state.problem.value} state=${state} /></main>`;
  }
  if (!session || !isMarkdownLoaded.value) return html`<main class="page"><p class="dim" aria-busy="true">Loading…</p></main>`;
  const view = route.value.view ?? VIEWS[0];
  return html`<div class="session">
    <${Head} state=${state} session=${session} />
    <${Tabs} id=${id} view=${view} state=${state} />
    <main class="view ${view}" aria-label=${NAMES[view]}><${SHOWN[view]} state=${state} /></main>
    <${ImageViewer} />
  </div>`;
}

function Failed({ problem, state }) {
  return html`<${Failure} problem=${problem} onRetry=${() => state.reload()} />
    ${problem.mayPass && html`<p class="dim">Retrying automatically</p>`}`;
}

function Gone() {
  return html`<main class="page">
    <p>This session does not exist. It may have been deleted.</p>
    <p><a href="#/">All sessions</a></p>
  </main>`;
}

function Head({ state, session }) {
  return html`<div class="session-head">
    <h1 title=${wholeName(session)}>${nameOf(session)}</h1>
    <${StatusBadge} session=${session} />
    <${SessionFacts} state=${state} session=${session} />
    <${Gauge} context=${session.context} />
    <span class="dim model">${session.model}</span>
    <${RunsOn} state=${state} session=${session} />
    <${ConnectionState} follower=${state.follower.value} />
    <${SessionActions} state=${state} session=${session} />
  </div>`;
}

/** The title, and the task if that says more. */
function wholeName({ title, task, ...session }) {
  const name = nameOf({ title, task, ...session });
  const isMore = task && !task.startsWith(name.replace(/…$/, ""));
  return title && isMore ? `${name}\n\n${plain(task)}` : plain(task || name);
}

function Tabs({ id, view, state }) {
  const waiting = state.approvals.value.length + state.clientCalls.value.length;
  const badge = html` <span class="badge waiting">${waiting}<span class="hidden"> waiting for you</span></span>`;
  return html`<nav class="tabs" aria-label="Views of this session">
    ${VIEWS.map(
      (name) => html`<a key=${name} href=${sessionLink(id, name)} aria-current=${name === view ? "page" : undefined}>
        ${NAMES[name]}${name === "conversation" && waiting ? badge : ""}
      </a>`,
    )}
    <button type="button" class="plain tabs-search" onClick=${search}>Search</button>
  </nav>`;
}
