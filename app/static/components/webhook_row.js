/** A webhook in the list: where it sends what, its state, its actions, and its deliveries when opened. */

import { html, useMemo, useState } from "../core/ui.js";
import { plainLine } from "../core/format.js";
import { sessionLink } from "../core/router.js";
import { changeWebhook, deleteWebhook, Deliveries } from "../state/webhooks.js";
import { Ago, Badge, Button, Confirm, sayProblem } from "./basic.js";
import { DeliveryTable } from "./delivery_table.js";
import { Menu } from "./menu.js";
import { WebhookDialog } from "./webhook_dialog.js";

export function WebhookRow({ webhook }) {
  const { id, url, status } = webhook;
  const deliveries = useMemo(() => new Deliveries(id), [id]);
  const [isOpen, setOpen] = useState(false);
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const test = async () => {
    await deliveries.test();
    setOpen(true);
  };
  const isActive = status === "active";
  const turn = () => changeWebhook(id, { status: isActive ? "disabled" : "active" }).catch(sayProblem);
  const items = [
    { label: "Edit", onClick: () => setDialog("edit") },
    { label: isActive ? "Disable" : "Enable", onClick: turn },
    { label: "Delete", kind: "danger", onClick: () => setDialog("delete") },
  ];
  return html`<li class="webhook">
    <div class="webhook-head">
      <div class="webhook-what">
        <h3>${plainLine(url)}</h3>
        <p><${State} webhook=${webhook} /> <${Scope} webhook=${webhook} /></p>
      </div>
      <div class="webhook-ways">
        ${!isActive && html`<${Button} onClick=${turn}>Enable<//>`}
        <${Button} aria-label=${`Test ${url}`} onClick=${test}>Test<//>
        <button
          type="button"
          aria-expanded=${isOpen}
          aria-label=${`Deliveries to ${url}`}
          onClick=${() => setOpen(!isOpen)}
        >
          Deliveries
        </button>
        <${Menu} label="⋯" name=${`Actions for ${url}`} items=${items} kind="plain" />
      </div>
    </div>
    <${Trouble} webhook=${webhook} />
    ${isOpen && html`<${DeliveryTable} webhook=${webhook} deliveries=${deliveries} />`}
    ${dialog === "edit" && html`<${WebhookDialog} webhook=${webhook} onClose=${close} />`}
    ${dialog === "delete" &&
    html`<${Confirm}
      title="Delete webhook?"
      text="Nothing more is sent to ${plainLine(url)}, and its list of deliveries is deleted. This cannot be undone."
      verb="Delete"
      onConfirm=${() => deleteWebhook(id)}
      onClose=${close}
    />`}
  </li>`;
}

function State({ webhook: { status, failing_since: failingSince } }) {
  if (status === "disabled") return html`<${Badge} kind="bad">disabled<//>`;
  return failingSince ? html`<${Badge} kind="warn">failing<//>` : html`<${Badge} kind="good">active<//>`;
}

/** Which events of which sessions are sent. */
function Scope({ webhook: { events, session_id: sessionId } }) {
  const names = events === null ? "all events" : html`<code>${events.map(plainLine).join(", ")}</code>`;
  const where = sessionId
    ? html`<a href=${sessionLink(sessionId)}>one session</a>`
    : "all sessions";
  return html`<span class="dim">${names} of ${where}</span>`;
}

/** Why it is disabled, or since when deliveries fail. */
function Trouble({ webhook: { status, disabled_reason: reason, disabled_at: at, failing_since: since } }) {
  if (status === "disabled") {
    const why = reason ? plainLine(reason) : "";
    return html`<p class="webhook-trouble">Disabled${at && html` <${Ago} time=${at} />`}${why && `: ${why}`}</p>`;
  }
  return since && html`<p class="webhook-trouble">Deliveries have been failing since <${Ago} time=${since} /></p>`;
}
