/** Attaching images to a message: a button, dropping and pasting, and the images with buttons to remove them. */

import { bytes } from "../core/format.js";
import { MEDIA_TYPES } from "../core/images.js";
import { Icon } from "./icon.js";
import { html, useEffect, useId, useRef, useState } from "../core/ui.js";

/** The height of a thumbnail in px, with room for dense screens. */
const THUMBNAIL = 128;

/** `isBrief` shows an icon instead of the words. */
export function AttachButton({ attachments, isBrief = false }) {
  const id = useId();
  const input = useRef(null);
  const onChange = ({ currentTarget }) => {
    const files = [...currentTarget.files];
    // So that the same file can be chosen again.
    currentTarget.value = "";
    attachments.add(files);
  };
  return html`<label class="hidden" for=${id}>Images to attach</label>
    <input ref=${input} id=${id} type="file" accept=${MEDIA_TYPES.join()} multiple hidden onChange=${onChange} />
    <button
      type="button"
      class="attach"
      title=${isBrief ? "Attach images" : undefined}
      onClick=${() => input.current.click()}
    >
      ${isBrief ? html`<${Icon} name="attach" /><span class="hidden">Attach images</span>` : "Attach images"}
    </button>`;
}

/** The attached images, and why others were not attached. */
export function Attached({ attachments }) {
  const items = attachments.items.value;
  const problem = attachments.problem.value;
  const list = useRef(null);
  const remove = (index) => {
    attachments.remove(items[index].key);
    // The button disappears with its image: the next one gets the focus, or the button that attaches images.
    requestAnimationFrame(() => {
      const left = list.current?.querySelectorAll("button") ?? [];
      const next = left[Math.min(index, left.length - 1)];
      (next ?? list.current?.parentElement.querySelector(".attach"))?.focus();
    });
  };
  return html`<ul class="attached" aria-label="Attached images" ref=${list} hidden=${items.length === 0}>
      ${items.map(
        ({ key, name, file }, index) => html`<li key=${key}>
          <${Thumbnail} name=${name} file=${file} />
          <span class="attached-name">${name} <span class="dim numbers">${bytes(file.size)}</span></span>
          <button type="button" class="plain" aria-label=${`Remove ${name}`} onClick=${() => remove(index)}>×</button>
        </li>`,
      )}
    </ul>
    ${problem && html`<p class="field-error" role="alert">${problem}</p>`}`;
}

/** Drawn on a canvas: the page's Content-Security-Policy allows no images but the server's. */
function Thumbnail({ name, file }) {
  const canvas = useRef(null);
  useEffect(() => {
    // A broken image has no preview; the server decides whether it accepts it.
    drawOn(canvas.current, file).catch(() => {});
  }, [file]);
  return html`<canvas ref=${canvas} width="0" height="0" role="img" aria-label=${name}></canvas>`;
}

async function drawOn(canvas, file) {
  const image = await createImageBitmap(file);
  const scale = Math.min(1, THUMBNAIL / image.height, (2 * THUMBNAIL) / image.width);
  canvas.width = Math.max(1, Math.round(image.width * scale));
  canvas.height = Math.max(1, Math.round(image.height * scale));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  image.close();
}

const hasFiles = ({ dataTransfer }) => dataTransfer?.types.includes("Files");

/** Attaches pasted images. A text that was copied together with its picture, as from a spreadsheet, stays a text. */
export function onPasteInto(attachments) {
  return (event) => {
    const { files, types } = event.clipboardData;
    if (files.length === 0 || types.includes("text/plain")) return;
    event.preventDefault();
    attachments.add([...files]);
  };
}

/** The props of an element that takes dropped files, by `onFiles(event)`, and whether files are dragged over it. */
export function useFileDrop(onFiles) {
  const [isOver, setOver] = useState(false);
  return {
    isOver,
    onDragOver: (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: ({ currentTarget, relatedTarget }) => currentTarget.contains(relatedTarget) || setOver(false),
    onDrop: (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(false);
      onFiles(event);
    },
  };
}
