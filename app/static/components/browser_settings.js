/** The settings of this browser: notifications and keys. */

import { html, useState } from "../core/ui.js";
import { chooseNotifications, notifies, sounds } from "../state/notices.js";
import { hasSingleKeys } from "../state/keys.js";

export function BrowserSettings() {
  const [isRefused, setRefused] = useState(false);
  const onNotify = async (event) => {
    const box = event.currentTarget;
    setRefused(!(await chooseNotifications(box.checked)));
    box.checked = notifies.value;
  };
  return html`<section aria-labelledby="browser-settings">
    <h2 id="browser-settings">This browser</h2>
    <div class="switches">
      <${Choice} label="Notify me when a session needs me or ends" value=${notifies.value} onChange=${onNotify} />
      <${Choice}
        label="Play a sound with notifications"
        value=${sounds.value}
        onChange=${(event) => (sounds.value = event.currentTarget.checked)}
        disabled=${!notifies.value}
      />
      <${Choice}
        label="Single-key shortcuts (press ? to list them)"
        value=${hasSingleKeys.value}
        onChange=${(event) => (hasSingleKeys.value = event.currentTarget.checked)}
      />
    </div>
    ${isRefused &&
    html`<p class="field-error" role="alert">
      The browser blocks notifications of this page. Allow them in its site settings, then try again.
    </p>`}
  </section>`;
}

function Choice({ label, value, ...rest }) {
  return html`<label><input type="checkbox" checked=${value} ...${rest} /> ${label}</label>`;
}
