/** Notices of sessions that need the user or have ended: a count in the title, and if wanted, the browser's
 * notifications and a sound. */

import { callWords } from "../components/tool_labels.js";
import { nameOf, plainLine } from "../core/format.js";
import { remembered } from "../core/preferences.js";
import { go, sessionLink } from "../core/router.js";
import { waiting } from "../core/title.js";
import { effect, signal } from "../core/ui.js";
import { needsYou } from "./session_order.js";
import { list } from "./sessions.js";

const isChoice = (found) => typeof found === "boolean";

/** Whether this browser shows notifications, and whether they have a sound. */
export const notifies = remembered("notifications", false, isChoice);
export const sounds = remembered("sound", false, isChoice);

/** Sessions that have ended since the user last looked at the page. */
const ended = signal(new Set());

const isLookedAt = () => document.visibilityState === "visible" && document.hasFocus();

/** Turns notifications on or off. Returns false if the browser, which asks the user, does not allow them. */
export async function chooseNotifications(isOn) {
  if (isOn && (await globalThis.Notification?.requestPermission()) !== "granted") return false;
  notifies.value = isOn;
  return true;
}

function looked() {
  if (isLookedAt() && ended.peek().size > 0) ended.value = new Set();
}

addEventListener("focus", looked);
document.addEventListener("visibilitychange", looked);

effect(() => {
  waiting.value = list.attention.value.size + ended.value.size;
});

list.staysOpen = () => notifies.peek();

list.watchers.add((session) => {
  // A run that ended before it began, since its message was withdrawn, has no outcome.
  const isNews = session.status === "idle" ? session.outcome !== null : session.status !== "running";
  if (!isNews || isLookedAt()) return;
  if (session.status === "idle" && !needsYou(session)) ended.value = new Set(ended.peek()).add(session.id);
  // Browsers offer notifications only in secure contexts, and the user may have withdrawn the permission.
  if (!notifies.peek() || globalThis.Notification?.permission !== "granted") return;
  notify(session);
  if (sounds.peek()) beep();
});

function notify(session) {
  // With a tag, the pages of several tabs show one notification.
  const notice = new Notification(nameOf(session), { body: wordsFor(session), tag: `palimpsest-${session.id}` });
  notice.onclick = () => {
    window.focus();
    go(sessionLink(session.id));
    notice.close();
  };
}

function wordsFor({ status, outcome, activity, error }) {
  if (status === "awaiting_approval") {
    const { verb, argument } = activity ? callWords(activity) : { verb: "a call", argument: "" };
    return `Waiting for approval: ${verb} ${argument}`;
  }
  if (status === "awaiting_client") return "Waiting for a client's result";
  if (outcome === "completed") return "Completed";
  return plainLine([outcome.replace("_", " "), error?.detail].filter(Boolean).join(": "));
}

/** A short, quiet tone. */
function beep() {
  const audio = new AudioContext();
  const tone = audio.createOscillator();
  const volume = audio.createGain();
  volume.gain.value = 0.05;
  tone.frequency.value = 660;
  tone.connect(volume).connect(audio.destination);
  tone.onended = () => audio.close();
  tone.start();
  tone.stop(audio.currentTime + 0.15);
}
