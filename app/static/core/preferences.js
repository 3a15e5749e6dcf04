/** Choices that this browser remembers. */

import { effect, signal } from "./ui.js";

/** A signal whose value is kept under a name; `initial` until it is set, and if what is kept is not `isValid`. */
export function remembered(name, initial, isValid) {
  const choice = signal(read(`palimpsest-${name}`, initial, isValid));
  effect(() => write(`palimpsest-${name}`, choice.value, initial));
  return choice;
}

// Storage may be disabled or full: the choice then lasts until the page is closed.
function read(key, initial, isValid) {
  try {
    const found = parsed(localStorage.getItem(key));
    return found !== null && isValid(found) ? found : initial;
  } catch {
    return initial;
  }
}

/** A value as it was written; a plain text, as earlier versions wrote, is itself. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function write(key, value, initial) {
  try {
    if (value === initial) localStorage.removeItem(key);
    else localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // As above.
  }
}
