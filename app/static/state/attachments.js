/** The images attached to a message that is not sent yet. */

import { bytes, plainLine } from "../core/format.js";
import { base64Of, LARGEST_BYTES, LARGEST_TOTAL_BYTES, mediaTypeOf, MOST_IMAGES } from "../core/images.js";
import { signal } from "../core/ui.js";
import { uuid7 } from "../core/uuid.js";

export class Attachments {
  /** The attached images, in order: `{key, name, mediaType, file}`. */
  items = signal([]);
  /** Why some of the last files were not attached; "" if all were. */
  problem = signal("");

  /** Attaches files one after the other, as far as the server accepts them. */
  async add(files) {
    const problems = [];
    for (const file of files) problems.push(await this.#add(file).catch(() => `${nameOf(file)} could not be read.`));
    this.problem.value = problems.filter(Boolean).join(" ");
  }

  /** Attaches a file, or returns why it cannot be attached. */
  async #add(file) {
    const mediaType = await mediaTypeOf(file);
    if (mediaType === null) return `${nameOf(file)} is not a PNG, JPEG, GIF or WebP image.`;
    if (file.size > LARGEST_BYTES) {
      return `${nameOf(file)} has ${bytes(file.size)}; an image can have at most ${bytes(LARGEST_BYTES)}.`;
    }
    const items = this.items.value;
    if (items.length === MOST_IMAGES) return `${nameOf(file)} was left out: a message can have ${MOST_IMAGES} images.`;
    if (items.reduce((sum, item) => sum + item.file.size, file.size) > LARGEST_TOTAL_BYTES) {
      return `${nameOf(file)} was left out: a message can have ${bytes(LARGEST_TOTAL_BYTES)} of images.`;
    }
    this.items.value = [...items, { key: uuid7(), name: plainLine(file.name), mediaType, file }];
    return null;
  }

  /** Removes the images with these keys. */
  remove(...keys) {
    // Not subscribed: the draft calls this in an effect.
    this.items.value = this.items.peek().filter(({ key }) => !keys.includes(key));
    this.problem.value = "";
  }

  clear() {
    this.remove(...this.items.value.map(({ key }) => key));
  }
}

const nameOf = ({ name }) => `“${plainLine(name)}”`;

/** The content of a message: its text, or parts if it has images. Throws an Error for an image that can no longer be
 * read, such as one that was changed meanwhile. */
export async function contentOf(text, images) {
  if (images.length === 0) return text;
  const parts = text.trim() ? [{ type: "text", text }] : [];
  for (const { name, mediaType, file } of images) {
    const data = await base64Of(file).catch(() => {
      throw new Error(`“${name}” can no longer be read. Remove it, or attach it again.`);
    });
    parts.push({ type: "image", media_type: mediaType, data });
  }
  return parts;
}
