/** What was sent to a webhook or waits to be sent again. */

import { count, duration, plainLine } from "../core/format.js";
import { sessionLink } from "../core/router.js";
import { html, useEffect, useState } from "../core/ui.js";
import { reloadWebhook } from "../state/webhooks.js";
import { Ago, Badge, Button, Failure, sayProblem } from "./basic.js";
import { TableBox } from "./usage_table.js";

/** How often deliveries that are pending are looked at, in ms. */
const EVERY_MS = 2_000;
const STATUSES = { "": "All", pending: "Pending", delivered: "Delivered", failed: "Failed" };
const KINDS = { pending: "running", delivered: "good", failed: "bad" };

export function DeliveryTable({ webhook, deliveries }) {
  const [problem, setProblem] = useState(null);
  const [status, setStatus] = useState("");
  const refresh = (load) => load.then(() => (setProblem(null), reloadWebhook(webhook.id))).catch(setProblem);
  const load = () => refresh(deliveries.load());
  const items = deliveries.items.value;
  useEffect(() => {
    load();
  }, [deliveries]);
  const isWaiting = items?.some((item) => item.status === "pending") ?? false;
  useEffect(() => {
    if (!isWaiting) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && load(), EVERY_MS);
    return () => clearInterval(timer);
  }, [isWaiting, deliveries]);
  const choose = ({ currentTarget: { value } }) => {
    setStatus(value);
    refresh(deliveries.filter(value));
  };
  return html`<section class="deliveries" aria-label="Deliveries">
    <div class="toolbar">
      <select aria-label="Status of deliveries" value=${status} onChange=${choose}>
        ${Object.entries(STATUSES).map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}
      </select>
      <${Button} onClick=${load}>Refresh<//>
    </div>
    ${problem && html`<${Failure} problem=${problem} onRetry=${load} />`}
    ${!items && !problem && html`<p class="dim" aria-busy="true">Loading…</p>`}
    ${items?.length === 0 && html`<p class="dim">${status ? "No such deliveries" : "Nothing has been sent yet"}</p>`}
    ${items?.length > 0 &&
    html`<${TableBox} name="Deliveries">
        <thead>
          <tr>
            <th scope="col">Event</th>
            <th scope="col">Status</th>
            <th scope="col">Response</th>
            <th scope="col" class="number">Attempts</th>
            <th scope="col">Created</th>
            <th scope="col"><span class="hidden">Actions</span></th>
          </tr>
        </thead>
        <tbody>
          ${items.map((item) => html`<${Row} key=${item.id} item=${item} deliveries=${deliveries} />`)}
        </tbody>
      <//>`}
    ${deliveries.next.value !== null &&
    html`<${Button} onClick=${() => deliveries.more().catch(sayProblem)}>Load more<//>`}
  </section>`;
}

function Row({ item, deliveries }) {
  const verb = item.status === "delivered" ? "Send again" : "Send now";
  const { id, type, session_id: sessionId, seq, status, attempts, created_at: createdAt } = item;
  return html`<tr>
    <th scope="row">
      <code>${plainLine(type)}</code>
      ${sessionId && html` <a href=${sessionLink(sessionId, "events")} title=${sessionId}>event ${count(seq)}</a>`}
    </th>
    <td><${Badge} kind=${KINDS[status]}>${status}<//> <${Next} item=${item} /></td>
    <td><${Response} item=${item} /></td>
    <td class="number">${count(attempts)}</td>
    <td class="dim"><${Ago} time=${createdAt} /></td>
    <td>
      <${Button} aria-label=${`${verb}: ${plainLine(type)}`} onClick=${() => deliveries.retry(id)}>${verb}<//>
    </td>
  </tr>`;
}

/** When a delivery that has failed is sent again. */
function Next({ item: { status, attempts, next_attempt_at: at } }) {
  if (status !== "pending" || attempts === 0 || !at) return null;
  return html`<span class="dim">next <${Ago} time=${at} /></span>`;
}

function Response({ item: { response_status: code, error, duration_ms: ms, attempts } }) {
  if (attempts === 0) return html`<span class="dim">–</span>`;
  const text = error ? plainLine(error) : `${code}`;
  return html`<span class=${error ? "delivery-error" : ""}>${text}</span>
    ${ms !== null && html` <span class="dim numbers">${duration(ms)}</span>`}`;
}
