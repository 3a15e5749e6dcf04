/** Webhooks and what was sent to them. */

import { get, patch, post, remove } from "../core/http.js";
import { signal } from "../core/ui.js";

const PAGE = 50;
const path = (...parts) => ["/v1/webhooks", ...parts.map(encodeURIComponent)].join("/");

/** The webhooks that are loaded, newest first; null until then. */
export const webhooks = signal(null);
/** Where the next page begins; null if there is none. */
export const nextWebhooks = signal(null);

/** Loads the first page. Throws a Problem, as all functions here. */
export async function loadWebhooks() {
  const page = await get(`/v1/webhooks?limit=${PAGE}`);
  webhooks.value = page.items;
  nextWebhooks.value = page.next_cursor;
}

export async function moreWebhooks() {
  const page = await get(`/v1/webhooks?${new URLSearchParams({ limit: PAGE, cursor: nextWebhooks.value })}`);
  webhooks.value = merged(webhooks.value, page.items);
  nextWebhooks.value = page.next_cursor;
}

const merged = (items, more) => [...items, ...more.filter(({ id }) => items.every((item) => item.id !== id))];

/** Creates a webhook and returns its secret, which no later response has. */
export async function createWebhook(body) {
  const { secret, ...webhook } = await post("/v1/webhooks", body);
  webhooks.value = [webhook, ...(webhooks.value ?? [])];
  return secret;
}

export async function changeWebhook(id, changes) {
  put(await patch(path(id), changes));
}

export async function reloadWebhook(id) {
  put(await get(path(id)));
}

function put(webhook) {
  webhooks.value = webhooks.value.map((item) => (item.id === webhook.id ? webhook : item));
}

export async function deleteWebhook(id) {
  await remove(path(id));
  webhooks.value = webhooks.value.filter((item) => item.id !== id);
}

/** The deliveries to one webhook, newest first. */
export class Deliveries {
  /** Those that are loaded; null until then. */
  items = signal(null);
  next = signal(null);
  #id;
  #status = "";

  constructor(webhookId) {
    this.#id = webhookId;
  }

  /** Loads the newest ones, and keeps the older ones that are loaded. */
  async load() {
    const status = this.#status;
    const page = await get(this.#query({}));
    if (status !== this.#status) return;
    if (this.items.value === null) this.next.value = page.next_cursor;
    this.items.value = merged(page.items, this.items.value ?? []);
  }

  async more() {
    const page = await get(this.#query({ cursor: this.next.value }));
    this.items.value = merged(this.items.value, page.items);
    this.next.value = page.next_cursor;
  }

  /** Loads only those with a status, or all with "". */
  async filter(status) {
    this.#status = status;
    this.items.value = null;
    await this.load();
  }

  /** Sends a test. */
  async test() {
    await post(path(this.#id, "test"));
    if (this.items.value !== null) await this.load();
  }

  async retry(id) {
    const retried = await post(path(this.#id, "deliveries", id, "retry"));
    this.items.value = this.items.value.map((item) => (item.id === id ? retried : item));
  }

  #query(more) {
    const query = new URLSearchParams({ limit: PAGE, ...(this.#status && { status: this.#status }), ...more });
    return `${path(this.#id, "deliveries")}?${query}`;
  }
}

/** The values of `events` that the form has by name; other lists are "some". */
export const EVENTS = { attention: ["session.idle", "approval.requested"], all: null };

/** The form's values for a webhook; for a new one without it. */
export function formOf(webhook) {
  if (!webhook) return { url: "", kind: "attention", events: "", session: "" };
  const { url, events, session_id: session } = webhook;
  const [kind = "some"] = Object.entries(EVENTS).find(([, list]) => JSON.stringify(list) === JSON.stringify(events)) ?? [];
  return { url, kind, events: events?.join("\n") ?? "", session: session ?? "" };
}

/** The request for the form's values: `{body, errors}`, errors by field. A webhook's session cannot be changed. */
export function requestOf({ url, kind, events, session }, isNew) {
  const errors = {};
  if (!url.trim()) errors.url = "Enter a URL.";
  const names = events.split(/[\s,]+/).filter(Boolean);
  if (kind === "some" && names.length === 0) errors.events = "Enter at least one event.";
  const body = { url: url.trim(), events: kind === "some" ? names : EVENTS[kind] };
  if (isNew && session.trim()) body.session_id = session.trim();
  return { body, errors };
}

const BY_CODE = { webhook_address_refused: "url", session_not_found: "session" };
const FIELDS = { url: "url", events: "events", session_id: "session" };

/** A problem's messages by the form's fields; those of no field are in `rest`. */
export function errorsOf(problem) {
  const named = problem.body.errors ?? [{ field: "", message: problem.message }];
  const errors = {};
  for (const { field, message } of named) {
    const place = FIELDS[field.split(".")[0]] ?? BY_CODE[problem.code] ?? "rest";
    errors[place] ??= message;
  }
  return errors;
}
