/** Settings: those of this browser, and the server's webhooks. */

import { Button, Failure } from "../components/basic.js";
import { BrowserSettings } from "../components/browser_settings.js";
import { WebhookDialog } from "../components/webhook_dialog.js";
import { WebhookRow } from "../components/webhook_row.js";
import { title } from "../core/title.js";
import { html, useEffect, useState } from "../core/ui.js";
import { loadWebhooks, moreWebhooks, nextWebhooks, webhooks } from "../state/webhooks.js";

export function SettingsView() {
  const [problem, setProblem] = useState(null);
  const [isCreating, setCreating] = useState(false);
  const load = () => loadWebhooks().then(() => setProblem(null), setProblem);
  useEffect(() => {
    title.value = "Settings";
    load();
  }, []);
  const items = webhooks.value;
  return html`<main class="page settings">
    <div class="page-head"><h1>Settings</h1></div>
    <${BrowserSettings} />
    <section aria-labelledby="webhooks">
      <div class="page-head">
        <h2 id="webhooks">Webhooks</h2>
        <button type="button" class="primary" onClick=${() => setCreating(true)}>New webhook</button>
      </div>
      <p class="dim">
        Sends events of sessions to a URL, in order and until they arrive, signed as${" "}
        <a href="https://www.standardwebhooks.com" target="_blank" rel="noreferrer">Standard Webhooks</a>.
      </p>
      ${problem && html`<${Failure} problem=${problem} onRetry=${load} />`}
      ${!items && !problem && html`<p class="dim" aria-busy="true">Loading…</p>`}
      ${items?.length === 0 && html`<p>No webhooks yet.</p>`}
      ${items?.length > 0 &&
      html`<ul class="webhooks" aria-label="Webhooks">
        ${items.map((webhook) => html`<${WebhookRow} key=${webhook.id} webhook=${webhook} />`)}
      </ul>`}
      ${items && nextWebhooks.value !== null && html`<${Button} onClick=${moreWebhooks}>Load more<//>`}
    </section>
    ${isCreating && html`<${WebhookDialog} onClose=${() => setCreating(false)} />`}
  </main>`;
}
