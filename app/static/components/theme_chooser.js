/** Chooses between the light, dark and system themes. */

import { theme, THEMES } from "../core/theme.js";
import { html } from "../core/ui.js";

/** The symbol comes first: a narrow page only has room for it. */
const NAMES = { system: "◐ System", light: "○ Light", dark: "● Dark" };

export function ThemeChooser() {
  return html`<select
    class="theme"
    aria-label="Theme"
    value=${theme.value}
    onChange=${(event) => (theme.value = event.currentTarget.value)}
  >
    ${THEMES.map((name) => html`<option key=${name} value=${name}>${NAMES[name]}</option>`)}
  </select>`;
}
