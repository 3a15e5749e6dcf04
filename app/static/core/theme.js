/** Light or dark: as the system has it, or as somebody has chosen for this browser. */

import { computed, effect, signal } from "./ui.js";

const KEY = "palimpsest-theme";

/** What can be chosen. */
export const THEMES = ["system", "light", "dark"];

/** What is chosen; setting it changes the page at once and is remembered. */
export const theme = signal(remembered());

const system = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(system.matches);
system.addEventListener("change", () => (systemIsDark.value = system.matches));

/** Whether the page is dark now. What is painted on a canvas reads it, so as to be painted again. */
export const isDark = computed(() => (theme.value === "system" ? systemIsDark.value : theme.value === "dark"));

effect(() => {
  const { dataset } = document.documentElement;
  if (theme.value === "system") delete dataset.theme;
  else dataset.theme = theme.value;
  remember(theme.value);
});

/** A colour of styles/base.css as a canvas takes it: `color("--accent")` is "rgb(138, 75, 20)". The value of the
 * variable itself would be `light-dark(…)`, which only a property of an element makes a colour of. */
export function color(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// Storage may be switched off or full: the choice then lasts as long as the page.
function remembered() {
  try {
    const found = localStorage.getItem(KEY);
    return THEMES.includes(found) ? found : "system";
  } catch {
    return "system";
  }
}

function remember(choice) {
  try {
    if (choice === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, choice);
  } catch {
    // As above.
  }
}
