/** A tool call's full arguments. */

import { LongCode } from "./highlight.js";
import { LongText } from "./long_text.js";
import { plain, plainLine } from "../core/format.js";
import { html } from "../core/ui.js";

/** Arguments up to this many characters are shown on one line with their name. */
const BRIEF = 60;

/** A call's arguments: texts as they are, in a box that scrolls; anything else as JSON. Nothing may be left out, since
 * the user decides by it whether the call may run. */
export function CallArguments({ name, args }) {
  if (typeof args === "string") {
    return html`<${Argument} label="Arguments (not a JSON object)" text=${args} />`;
  }
  const entries = Object.entries(args).map(([key, value]) => [plainLine(key), asText(value)]);
  if (entries.length === 0) return html`<p class="dim">No arguments.</p>`;
  const isCommand = (key) => name === "execute_command" && key === "command";
  const isBrief = ([key, text]) => text.length <= BRIEF && !text.includes("\n") && !isCommand(key);
  const brief = entries.filter(isBrief);
  const shown = ([key, text]) =>
    html`<${Argument} key=${key} label=${key} text=${text} isCommand=${isCommand(key)} />`;
  // What a decision depends on comes first: a command, and the path before the content of a file.
  return html`<div class="call-arguments">
    ${entries.filter(([key]) => isCommand(key)).map(shown)}
    ${brief.length > 0 &&
    html`<dl>
      ${brief.map(([key, text]) => html`<div key=${key}><dt>${key}</dt><dd><code>${plainLine(text)}</code></dd></div>`)}
    </dl>`}
    ${entries.filter((entry) => !isBrief(entry) && !isCommand(entry[0])).map(shown)}
  </div>`;
}

const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

function Argument({ label, text, isCommand = false }) {
  return html`<figure class="argument">
    <figcaption>${label}</figcaption>
    ${isCommand
      ? html`<${LongCode} label=${label} text=${plain(text)} language="bash" />`
      : html`<${LongText} label=${label} text=${plain(text)} />`}
  </figure>`;
}
