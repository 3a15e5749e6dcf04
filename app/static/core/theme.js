/** Light or dark theme: the system's, or the one chosen in this browser. */

import { remembered } from "./preferences.js";
import { computed, effect, signal } from "./ui.js";

/** The available themes. */
export const THEMES = ["system", "light", "dark"];

/** The chosen theme; setting it applies and stores it. */
export const theme = remembered("theme", "system", (found) => THEMES.includes(found));

const system = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(system.matches);
system.addEventListener("change", () => (systemIsDark.value = system.matches));

/** Whether the page is dark. Canvas drawings subscribe to it to be redrawn. */
export const isDark = computed(() => (theme.value === "system" ? systemIsDark.value : theme.value === "dark"));

effect(() => {
  const { dataset } = document.documentElement;
  if (theme.value === "system") delete dataset.theme;
  else dataset.theme = theme.value;
});

/** A color of styles/base.css in a form that a canvas accepts: `color("--accent")` is "rgb(138, 75, 20)". The variable
 * itself holds `light-dark(…)`, which only resolves as a property of an element. */
export function color(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
