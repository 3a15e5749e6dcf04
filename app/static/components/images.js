/** Images of messages and results, and the viewer that shows one of them in full. */

import { bytes, plainLine } from "../core/format.js";
import { sessionPath } from "../core/http.js";
import { html, signal, useEffect, useState } from "../core/ui.js";
import { Dialog } from "./basic.js";

/** The largest size in px of an image within a message. */
const ACROSS = 320;
const DOWN = 200;

/** The image in the viewer, `{sessionId, part}`, or null. */
const viewed = signal(null);

/** An image's name for people: the file that it was, or its format, and its size. */
export function imageName({ path, media_type: type, width, height }) {
  const size = width && height ? `, ${width} × ${height}` : "";
  return plainLine(`Image ${path ?? `(${type.replace("image/", "").toUpperCase()})`}${size}`);
}

/** An image as a button that opens the viewer. `part` is a part of a message or of a queued one. */
export function MessageImage({ sessionId, part }) {
  const [hasFailed, setFailed] = useState(false);
  const name = imageName(part);
  // Only imported histories may have images that the server does not store.
  if (!part.digest) return html`<p class="dim">${name}, not shown</p>`;
  if (hasFailed) return html`<p class="dim">${name}, could not be loaded</p>`;
  return html`<figure class="message-image">
    <button type="button" aria-label=${`Open ${name}`} onClick=${() => (viewed.value = { sessionId, part })}>
      <img
        src=${sessionPath(sessionId, "images", part.digest)}
        alt=${name}
        loading="lazy"
        ...${shownSize(part)}
        onError=${() => setFailed(true)}
      />
    </button>
    ${part.compacted_at && html`<figcaption class="dim">Cleared from the context</figcaption>`}
  </figure>`;
}

/** The images among some parts, in a row; nothing if there are none. */
export function MessageImages({ sessionId, parts }) {
  const images = parts.filter(({ type }) => type === "image");
  if (images.length === 0) return null;
  return html`<div class="message-images">
    ${images.map(
      (part, place) => html`<${MessageImage} key=${part.id ?? place} sessionId=${sessionId} part=${part} />`,
    )}
  </div>`;
}

/** The size within a message, known before the image is loaded, so that nothing moves when it is. */
function shownSize({ width, height }) {
  if (!width || !height) return { width: ACROSS, height: DOWN };
  const scale = Math.min(1, ACROSS / width, DOWN / height);
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) };
}

/** The estimated height of an image within a message, in px. */
export const imageHeight = (part) => shownSize(part).height + 12;

/** Shows the image that was opened. There is one viewer for all views of a session: the row that an image was opened
 * from may scroll out of view. */
export function ImageViewer() {
  const close = () => (viewed.value = null);
  useEffect(() => close, []);
  if (!viewed.value) return null;
  const { sessionId, part } = viewed.value;
  const path = sessionPath(sessionId, "images", part.digest);
  const name = imageName(part);
  return html`<${Dialog} title=${name} wide=${true} onClose=${close}>
    <div class="whole-image" tabindex="0" role="region" aria-label=${name}><img src=${path} alt=${name} /></div>
    <footer>
      <span class="dim">${plainLine(part.media_type)}${part.bytes ? `, ${bytes(part.bytes)}` : ""}</span>
      <a class="button" href=${path} download=${fileName(part)}>Download</a>
    </footer>
  <//>`;
}

function fileName({ path, digest, media_type: type }) {
  return path?.slice(path.lastIndexOf("/") + 1) ?? `${digest.slice(0, 16)}.${type.replace("image/", "")}`;
}
