/** How the page is connected, in words, while it is anything but live. */

import { html, useEffect, useState } from "../core/ui.js";

const WORDS = { connecting: "Connecting …", behind: "Catching up …", offline: "Offline" };

/** The state of a Follower; null is one that is not there yet. */
export function ConnectionState({ follower }) {
  const state = follower ? follower.state.value : "connecting";
  // While a lost connection is tried anew, the button stays, and with it the focus that it may have.
  const isLost = follower && follower.retryAt.value !== null && state !== "closed";
  return html`<span class="connection ${isLost ? "offline" : state}">
    <span role="status">${WORDS[state] ?? ""}</span>
    ${isLost && html`<${NextTry} follower=${follower} isTrying=${state !== "offline"} />`}
  </span>`;
}

/** The seconds are no part of the status: read aloud, they would never end. */
function NextTry({ follower, isTrying }) {
  const seconds = useSecondsUntil(follower.retryAt.value);
  return html`${!isTrying && html`<span class="dim numbers">next try in ${seconds} s</span>`}
    <button type="button" aria-disabled=${isTrying} onClick=${() => follower.tryNow()}>Try now</button>`;
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
