/** A button that copies a text. */

import { copy } from "../core/save.js";
import { html } from "../core/ui.js";
import { Button, say } from "./basic.js";
import { Icon } from "./icon.js";

/** `text` is a text, or a function that returns one or a promise of one; `name` says what is copied. */
export function CopyButton({ text, name }) {
  const act = async () => {
    await copy(typeof text === "function" ? await text() : text);
    say("Copied.");
  };
  const label = `Copy ${name}`;
  return html`<${Button} kind="copy" aria-label=${label} title=${label} onClick=${act}><${Icon} name="copy" /><//>`;
}
