/** One session in the list: its status, its usage, and its actions. */

import { compact, count, dollars, markdownLine, plainLine } from "../core/format.js";
import { post, sessionPath } from "../core/http.js";
import { sessionLink } from "../core/router.js";
import { html } from "../core/ui.js";
import { needsYou } from "../state/session_order.js";
import { Activity } from "./activity.js";
import { RowApprovals } from "./row_approvals.js";
import { Ago, Badge, say, sayProblem, StatusBadge } from "./basic.js";
import { Menu } from "./menu.js";

/** `name` is the displayed name; `onChanged(session)` gets the session after an action, and `openDialog(dialog,
 * session)` opens a dialog. */
export function SessionRow({ session, name, onChanged, openDialog }) {
  return html`<li class="session-row ${session.unseen ? "unseen" : ""}" data-session-id=${session.id}>
    <div class="row-name">
      <a href=${sessionLink(session.id)}>${name}</a>
      ${session.unseen && html`<span class="hidden">, not opened since it ended</span>`}
      <${Now} session=${session} />
    </div>
    <div class="row-status"><${StatusBadge} session=${session} /><${MoreBadges} session=${session} /></div>
    <span class="row-model dim">${session.model}</span>
    <span class="row-steps numbers">${plural(session.steps, "step")}</span>
    <span class="row-cost numbers"><${Cost} usage=${session.usage} /></span>
    <span class="row-context numbers"><${Context} context=${session.context} /></span>
    <span class="row-time dim">
      <${Ago} time=${session.status === "running" ? session.created_at : session.placed_at} />
    </span>
    <${Actions} session=${session} name=${name} onChanged=${onChanged} openDialog=${openDialog} />
    ${session.status === "awaiting_approval" && html`<${RowApprovals} session=${session} />`}
  </li>`;
}

/** What the session is doing, or how its last run ended. */
function Now({ session }) {
  if (session.status === "idle") {
    if (!session.error) return html`<${Result} session=${session} />`;
    return html`<${Problem} error=${session.error} isBad=${needsYou(session)} />`;
  }
  if (session.status === "awaiting_approval") return null;
  return html`<p class="row-now dim"><${Activity} session=${session} /></p>`;
}

function Problem({ error, isBad }) {
  const text = plainLine(error.detail || error.title || error.code || "");
  return html`<p class="row-error ${isBad ? "" : "dim"}" title=${text}>${text}</p>`;
}

/** Characters of a result in the list. */
const RESULT = 200;

/** The beginning of the last run's output or answer. */
function Result({ session: { output, answer } }) {
  const text = output == null ? markdownLine((answer ?? "").slice(0, RESULT)) : plainLine(JSON.stringify(output));
  if (!text) return null;
  return html`<p class="row-result dim">${text.slice(0, RESULT)}</p>`;
}

const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

/** A running compaction, and pending messages. */
function MoreBadges({ session: { compaction, queue } }) {
  return html`${compaction.in_progress && html`<${Badge} kind="running">compacting<//>`}
  ${queue.pending > 0 && html`<${Badge}>${count(queue.pending)} queued<//>`}`;
}

function Cost({ usage: { cost_usd: cost } }) {
  if (cost !== null) return dollars(cost);
  return html`<span class="unknown" title="The model's price is unknown."><span class="unit">cost </span>unknown</span>`;
}

function Context({ context: { tokens, usable } }) {
  if (!usable) return `${compact(tokens)} tokens`;
  return html`${compact(tokens)}<span class="dim"> of ${compact(usable)}<span class="unit"> tokens</span></span>`;
}

function Actions({ session, name, onChanged, openDialog }) {
  const cancel = async () => {
    onChanged(await post(sessionPath(session.id, "cancel")));
    say(`Cancelling “${name}”…`);
  };
  const items = [
    { label: "Rename", onClick: () => openDialog("rename", session) },
    { label: "Fork", onClick: () => openDialog("fork", session) },
    { label: "Delete", onClick: () => openDialog("delete", session), kind: "danger" },
  ];
  if (session.status !== "idle") items.splice(1, 0, { label: "Cancel run", onClick: () => cancel().catch(sayProblem) });
  return html`<div class="row-menu">
    <${Menu} label="⋯" name="Actions for ${name}" items=${items} kind="plain" />
  </div>`;
}
