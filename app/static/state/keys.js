/** The keyboard shortcuts: one table, which the page binds and the help dialog shows. */

import { remembered } from "../core/preferences.js";
import { go, route } from "../core/router.js";
import { signal } from "../core/ui.js";
import { isCreating } from "./draft.js";

/** Whether shortcuts without Ctrl are on: they disturb speech input. */
export const hasSingleKeys = remembered("keys", true, (found) => typeof found === "boolean");

/** What is open on top of the page: "help", "palette", "search" (of the open session), or null. */
export const overlay = signal(null);

/** `run` may return false if there is nothing to do. One without `run` is the browser's. */
export const SHORTCUTS = [
  { key: "?", label: "Show these shortcuts", run: () => (overlay.value = "help") },
  { key: "Ctrl+K", label: "Go to a session or run an action", run: () => (overlay.value = "palette") },
  { key: "/", label: "Search the list, or the open session", run: search },
  { key: "n", label: "New session", run: newSession },
  { key: "j", label: "Next session in the list", run: () => moveInList(1) },
  { key: "k", label: "Previous session in the list", run: () => moveInList(-1) },
  { key: "m", label: "Write a message to the open session", run: () => focusOn(".composer textarea") },
  { key: "a", label: "Approve the call (in the list: of the selected session)", run: () => decide("approve") },
  { key: "d", label: "Deny the call", run: () => decide("deny") },
  { key: "Esc", label: "Close a dialog or menu" },
];

export function newSession() {
  if (route.value.page !== "sessions") go("#/");
  isCreating.value = true;
}

/** Opens the search of the session, or moves to that of the list. */
export function search() {
  if (route.value.page === "session") overlay.value = "search";
  else focusOn('.filter input[type="search"]');
}

function focusOn(selector) {
  document.querySelector(selector)?.focus();
}

function moveInList(by) {
  const rows = [...document.querySelectorAll(".session-row .row-name a")];
  const now = rows.findIndex((row) => row.closest(".session-row").contains(document.activeElement));
  const next = now < 0 ? 0 : Math.min(Math.max(now + by, 0), rows.length - 1);
  rows[next]?.focus();
}

/** Clicks the button of the call that has the focus, or of the first one of the selected or open session. */
function decide(decision) {
  const { activeElement } = document;
  const near = activeElement.closest(".approval") ?? activeElement.closest(".session-row");
  const place = near ?? (route.value.page === "session" ? document : null);
  place?.querySelector(`.approval [data-decision="${decision}"]`)?.click();
}

/** Runs the shortcut of a key, except while the user types or a dialog is open. */
export function onKey(event) {
  if (event.defaultPrevented || event.isComposing || isTyping(event.target) || isModal()) return;
  const shortcut = SHORTCUTS.find(({ key, run }) => run && isPressed(event, key));
  if (!shortcut) return;
  event.preventDefault();
  shortcut.run();
}

function isPressed({ key, ctrlKey, metaKey, altKey }, wanted) {
  const withControl = wanted.startsWith("Ctrl+");
  if (altKey || (ctrlKey || metaKey) !== withControl) return false;
  return withControl ? `Ctrl+${key.toUpperCase()}` === wanted : hasSingleKeys.value && key === wanted;
}

const isModal = () => document.querySelector("dialog[open]") !== null;

/** Whether the target takes text or chooses by letters. */
function isTyping(target) {
  if (!(target instanceof Element)) return false;
  if (target.matches("input")) return !["checkbox", "radio", "button", "file"].includes(target.type);
  return target.isContentEditable || target.matches("textarea, select");
}
