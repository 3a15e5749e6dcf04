/** The progress of an upload, which can be cancelled. */

import { bytes, percent } from "../core/format.js";
import { html } from "../core/ui.js";

/** `share` is the part that is sent, from 0 to 1, `size` the bytes in all. */
export function UploadProgress({ share, size, onCancel }) {
  const isSent = share >= 1;
  return html`<div class="upload-progress" role="group" aria-label="Upload">
    <progress value=${isSent ? undefined : share} max="1" aria-label="Upload of the files"></progress>
    <span class="dim numbers" role="status">
      ${isSent ? "Unpacking…" : html`Uploading ${bytes(size)}<span aria-hidden="true">, ${percent(share)}</span>`}
    </span>
    <button type="button" onClick=${onCancel}>Cancel upload</button>
  </div>`;
}
