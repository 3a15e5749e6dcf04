/** Chooses between light, dark and what the system has. */

import { theme, THEMES } from "../core/theme.js";
import { html } from "../core/ui.js";

/** The sign comes first: on a narrow page there is room for it alone. */
const NAMES = { system: "◐ System", light: "○ Light", dark: "● Dark" };

export function ThemeChooser() {
  return html`<select
    class="theme"
    aria-label="Colours"
    value=${theme.value}
    onChange=${(event) => (theme.value = event.currentTarget.value)}
  >
    ${THEMES.map((name) => html`<option key=${name} value=${name}>${NAMES[name]}</option>`)}
  </select>`;
}
