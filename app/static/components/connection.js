/** The connection status, shown unless it is live. */

import { html, useEffect, useState } from "../core/ui.js";

const WORDS = { connecting: "Connecting…", behind: "Catching up…", offline: "Offline" };

/** The state of a Follower; null if it does not exist yet. */
export function ConnectionState({ follower }) {
  const state = follower ? follower.state.value : "connecting";
  // The button stays during a retry, so that it keeps the focus.
  const isLost = follower && follower.retryAt.value !== null && state !== "closed";
  return html`<span class="connection ${isLost ? "offline" : state}">
    <span role="status">${WORDS[state] ?? ""}</span>
    ${isLost && html`<${NextTry} follower=${follower} isTrying=${state !== "offline"} />`}
  </span>`;
}

/** The countdown is not part of the status, or screen readers would announce every second. */
function NextTry({ follower, isTrying }) {
  const seconds = useSecondsUntil(follower.retryAt.value);
  return html`${!isTrying && html`<span class="dim numbers">retrying in ${seconds} s</span>`}
    <button type="button" aria-disabled=${isTrying} onClick=${() => follower.tryNow()}>Retry now</button>`;
}

function useSecondsUntil(time) {
  const left = () => Math.max(0, Math.ceil((time - Date.now()) / 1000));
  const [seconds, setSeconds] = useState(left);
  useEffect(() => {
    setSeconds(left());
    const timer = setInterval(() => setSeconds(left()), 500);
    return () => clearInterval(timer);
  }, [time]);
  return seconds;
}
