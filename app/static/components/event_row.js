/** A row of the event log. */

import { clock, plain, plainLine } from "../core/format.js";
import { copy } from "../core/save.js";
import { html } from "../core/ui.js";
import { Button, say } from "./basic.js";
import { LongText } from "./long_text.js";

/** Maximum characters of an event's data on its line. */
const BRIEF = 240;
const milliseconds = (time) => String(new Date(time).getMilliseconds()).padStart(3, "0");
const texts = new WeakMap();

/** An event's data as JSON on one line, without the fields common to all events. */
export function textOf({ data }) {
  if (!texts.has(data)) {
    const { type, seq, session_id, at, ...rest } = data;
    texts.set(data, JSON.stringify(rest));
  }
  return texts.get(data);
}

/** An event: its seq, time and type, and its data on one line, or also in full if `isOpen`. */
export function EventRow({ event, isOpen, onToggle }) {
  const { seq, type, data } = event;
  const copyWhole = () => copy(JSON.stringify({ seq, type, data }, null, 2)).then(() => say("Copied."));
  return html`<div class="event-line">
      <button type="button" class="event-head" aria-expanded=${isOpen} onClick=${onToggle}>
        <span class="fold-mark" aria-hidden="true">${isOpen ? "▾" : "▸"}</span>
        <span class="event-seq numbers">${seq}</span>
        <time class="event-time numbers dim" datetime=${data.at}>${clock(data.at)}.${milliseconds(data.at)}</time>
        <span class="event-type">${plainLine(type)}</span>
        <span class="event-brief dim">${plainLine(textOf(event).slice(0, BRIEF))}</span>
      </button>
      <${Button} kind="plain" aria-label=${`Copy event ${seq}`} onClick=${copyWhole}>Copy<//>
    </div>
    ${isOpen && html`<${LongText} label=${`Event ${seq} as JSON`} text=${plain(JSON.stringify(data, null, 2))} />`}`;
}

