/** The title of the page's tab: the current view, after a count of what waits for the user. */

import { effect, signal } from "./ui.js";

/** The name of the current view. */
export const title = signal("");

/** How many sessions wait for the user, or have ended while the page was hidden. */
export const waiting = signal(0);

effect(() => {
  const name = [title.value, "Palimpsest"].filter(Boolean).join(" · ");
  document.title = waiting.value ? `(${waiting.value}) ${name}` : name;
});
