/** The list of sessions in sections, with filter and search, and the form for new ones. */

import { useFileDrop } from "../components/attachments.js";
import { Failure } from "../components/basic.js";
import { ConnectionState } from "../components/connection.js";
import { CreateForm, takeFiles } from "../components/create_form.js";
import { FirstVisit } from "../components/first_visit.js";
import { SessionDialog } from "../components/session_dialogs.js";
import { SessionRow } from "../components/session_row.js";
import { count, nameOf, plainLine } from "../core/format.js";
import { route, setQuery } from "../core/router.js";
import { title } from "../core/title.js";
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../core/ui.js";
import { isCreating } from "../state/draft.js";
import { SECTIONS } from "../state/session_order.js";
import { list } from "../state/sessions.js";

const STATUSES = {
  "": "All",
  needs_attention: "Needs you",
  running: "Running",
  awaiting_approval: "Awaiting approval",
  awaiting_client: "Awaiting client",
  idle: "Done",
};
const NOUNS = {
  "": "sessions",
  needs_attention: "sessions that need you",
  running: "running sessions",
  awaiting_approval: "sessions awaiting approval",
  awaiting_client: "sessions awaiting a client",
  idle: "sessions that are done",
};
/** How long after the last key a search starts, in ms. */
const SEARCH_MS = 250;
/** How long changes are collected before they are announced, in ms, to keep screen readers quiet. */
const SAY_MS = 3_000;

/** The scroll position, kept like the list. */
const place = { top: 0 };

export function Sessions() {
  const page = useRef(null);
  const [dialog, setDialog] = useState(null);
  const openDialog = (name, session) => setDialog({ name, session });
  useEffect(() => {
    title.value = "Sessions";
  }, []);
  useFilterOfAddress();
  useLayoutEffect(() => {
    // Setting it has the browser lay out the page.
    if (place.top > 0) page.current.scrollTop = place.top;
  }, []);
  const onScroll = (event) => (place.top = event.currentTarget.scrollTop);
  const { status, q } = list.filter.value;
  const isFirst = list.loaded.value && list.items.value.length === 0 && !status && !q;
  const { isOver, ...dropping } = useFileDrop((event) => {
    if (!isFirst) isCreating.value = true;
    takeFiles(event);
  });
  return html`<main
    class="page sessions ${isOver ? "drop-target" : ""}"
    ref=${page}
    onScroll=${onScroll}
    ...${dropping}
  >
    <${Head} isFirst=${isFirst} />
    ${isCreating.value && !isFirst && html`<${CreateForm} onClose=${() => (isCreating.value = false)} />`}
    ${list.problem.value && html`<${Failure} problem=${list.problem.value} onRetry=${() => retry()} />`}
    ${isFirst ? html`<${FirstVisit} />` : html`<${Filter} /><${Rows} dialog=${dialog} openDialog=${openDialog} />`}
    ${dialog && html`<${RowDialog} ...${dialog} onClose=${() => setDialog(null)} />`}
    <${News} />
  </main>`;
}

/** Shows what the address asks for, when the list is opened and when the address changes. Without a filter in the
 * address, as in the links of the page, the list keeps its own. */
function useFilterOfAddress() {
  const { status = "", q = "" } = route.value.query;
  const isKept = useRef(!status && !q);
  useEffect(() => {
    if (isKept.current) setQuery(list.filter.peek());
    else list.setFilter({ status: status in STATUSES ? status : "", q });
    isKept.current = false;
  }, [status, q]);
}

/** Reopens the stream if it has failed permanently; otherwise only loads the list. */
function retry() {
  if (list.follower.value?.state.value !== "closed") return list.load({ keep: true });
  list.problem.value = null;
  list.close();
  list.open();
}

function Head({ isFirst }) {
  const toggle = () => (isCreating.value = !isCreating.value);
  return html`<div class="page-head">
    <h1>${isFirst ? "Welcome" : "Sessions"}</h1>
    <${ConnectionState} follower=${list.follower.value} />
    ${!isFirst &&
    html`<button type="button" class="primary" aria-expanded=${isCreating.value} onClick=${toggle}>
      New session
    </button>`}
  </div>`;
}

function Filter() {
  const { status, q } = list.filter.value;
  const [text, setText] = useState(q);
  const sent = useRef(q);
  const onStatus = (event) => setQuery({ status: event.currentTarget.value });
  useEffect(() => {
    if (text === q) return undefined;
    const timer = setTimeout(() => {
      sent.current = text;
      setQuery({ q: text });
    }, SEARCH_MS);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    // The address has changed in another way; otherwise the user may have written more meanwhile.
    if (q !== sent.current) setText(q);
    sent.current = q;
  }, [q]);
  return html`<div class="filter" role="search">
    <input
      type="search"
      aria-label="Search titles and tasks"
      placeholder="Search titles and tasks"
      maxlength="500"
      value=${text}
      onInput=${(event) => setText(event.currentTarget.value)}
    />
    <select aria-label="Status" value=${status} onChange=${onStatus}>
      ${Object.entries(STATUSES).map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}
    </select>
  </div>`;
}

/** The dialog of a row's menu. It stays open even if the filter removes the row. */
function RowDialog({ name, session: before, onClose }) {
  const session = list.items.value.find(({ id }) => id === before.id) ?? before;
  const onDeleted = () => {
    // First, so that the focus returns to the row and then moves to its neighbor.
    onClose();
    list.removed(session.id);
  };
  const onRenamed = (changed) => list.put(changed);
  return html`<${SessionDialog} ...${{ name, session, onClose, onRenamed, onDeleted }} />`;
}

function Rows({ dialog, openDialog }) {
  const items = list.items.value;
  const isLoading = list.loading.value;
  const focus = useKeptFocus(items, dialog);
  if (items.length === 0) return html`<${Nothing} isLoading=${isLoading || !list.loaded.value} />`;
  const sections = SECTIONS.map(([name, contains]) => [name, items.filter(contains)]);
  return html`<div class="session-sections" aria-busy=${isLoading} ...${focus}>
      ${sections
        .filter(([, found]) => found.length > 0)
        .map(([name, found]) => html`<${Section} key=${name} ...${{ name, items: found, openDialog }} />`)}
    </div>
    <${More} />`;
}

function Section({ name, items, openDialog }) {
  const id = useId();
  // More of those that are done may be on later pages.
  const isPart = name === "Done" && list.nextCursor.value !== null;
  // The element of an unchanged session is the same, so that its row is not drawn again.
  const { current: drawn } = useRef(new WeakMap());
  const rowOf = (session) => {
    if (!drawn.has(session)) drawn.set(session, html`<${Row} key=${session.id} ...${{ session, openDialog }} />`);
    return drawn.get(session);
  };
  return html`<section aria-labelledby=${id}>
    <h2 id=${id}>${name} <span class="dim numbers">${count(items.length)}${isPart && "+"}</span></h2>
    <ul class="session-list" aria-label=${name}>
      ${items.map(rowOf)}
    </ul>
  </section>`;
}

function Row({ session, openDialog }) {
  const onChanged = (changed) => list.put(changed);
  return html`<${SessionRow} ...${{ session, name: nameOf(session), onChanged, openDialog }} />`;
}

/** When the focused row disappears, because it was deleted or filtered out, the row in its place gets the focus once no
 * dialog is open: otherwise keyboard users would start again at the top of the page. Returns the list's props. */
function useKeptFocus(items, dialog) {
  const rows = useRef(null);
  const last = useRef(null);
  useEffect(() => {
    if (last.current === null || document.activeElement !== document.body) return;
    const { id, index } = last.current;
    if (items.some((item) => item.id === id)) return;
    rowsOf(rows.current)[Math.min(index, items.length - 1)]?.querySelector("a").focus();
  }, [items, dialog]);
  const onFocusIn = ({ target }) => {
    // A dialog closed together with the list returns the focus to a row that is already removed.
    if (!rows.current) return;
    const row = target.closest(".session-row");
    last.current = row && { id: row.dataset.sessionId, index: rowsOf(rows.current).indexOf(row) };
  };
  const onFocusOut = ({ relatedTarget: to }) => {
    if (to && !rows.current?.contains(to) && !to.closest("dialog")) last.current = null;
  };
  return { ref: rows, onFocusIn, onFocusOut };
}

const rowsOf = (list) => [...(list?.querySelectorAll(".session-row") ?? [])];

function Nothing({ isLoading }) {
  if (list.problem.value) return null;
  if (isLoading) return html`<p class="dim" aria-busy="true">Loading…</p>`;
  const { status, q } = list.filter.value;
  return html`<p class="dim">No ${NOUNS[status]}${q && ` match “${plainLine(q)}”`}</p>`;
}

/** Loads the next page when its button becomes visible or is clicked. */
function More() {
  const end = useRef(null);
  const hasMore = list.nextCursor.value !== null;
  useEffect(() => {
    if (!hasMore) return undefined;
    const seen = new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && list.more(), {
      rootMargin: "300px",
    });
    seen.observe(end.current);
    return () => seen.disconnect();
    // Recreated after each page: if the end stays visible, an observer reports no change.
  }, [hasMore, list.items.value.length]);
  if (!hasMore) return null;
  return html`<p ref=${end} class="more">
    <button type="button" aria-disabled=${list.loading.value} onClick=${() => list.more()}>Load more</button>
  </p>`;
}

/** Announces to screen readers how many sessions a search has found and which have ended or are waiting. */
function News() {
  const [text, setText] = useState("");
  useFound(setText);
  useEffect(() => {
    const changes = new Map();
    let timer = null;
    const watch = (session) => {
      if (session.status === "running") return;
      changes.set(session.id, `${nameOf(session)}: ${stateOf(session)}.`);
      timer ??= setTimeout(() => {
        const many = `${changes.size} sessions have ended or are waiting for you.`;
        setText(changes.size > 3 ? many : [...changes.values()].join(" "));
        changes.clear();
        timer = null;
      }, SAY_MS);
    };
    list.watchers.add(watch);
    return () => {
      clearTimeout(timer);
      list.watchers.delete(watch);
    };
  }, []);
  return html`<p class="hidden" role="status">${text}</p>`;
}

const stateOf = ({ status, outcome }) => (status === "idle" ? outcome : status)?.replace("_", " ") ?? "idle";

function useFound(setText) {
  const { status, q } = list.filter.value;
  const isLoaded = list.loaded.value;
  useEffect(() => {
    if (!isLoaded || (!status && !q)) return;
    const found = list.items.value.length;
    const more = list.nextCursor.value === null ? "" : " or more";
    setText(`${count(found)}${more} session${found === 1 ? "" : "s"} found.`);
  }, [isLoaded, status, q]);
}
