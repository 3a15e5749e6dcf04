/** The content of a queued message: a text, or parts. */

import { request, sessionPath } from "../core/http.js";
import { base64Of } from "../core/images.js";

const isText = ({ type }) => type === "text";

/** Whether the content has more than texts. */
export const hasMore = (content) => typeof content !== "string" && !content.every(isText);

/** The texts of the content. */
export function textOf(content) {
  if (typeof content === "string") return content;
  return content.filter(isText).map(({ text }) => text).join("\n\n");
}

/** Whether the content may become this text: it must not be empty, which only images and files allow. */
export const mayBecome = (content, text) => text.trim() !== "" || hasMore(content);

/** The content to send for a changed text: images and files stay as they are, after the text. The server takes images
 * only by their content, so they are loaded. Throws a Problem. */
export async function withText(sessionId, content, text) {
  if (!hasMore(content)) return text;
  const others = content.filter((part) => !isText(part));
  const parts = await Promise.all(others.map((part) => asInput(sessionId, part)));
  return text.trim() ? [{ type: "text", text }, ...parts] : parts;
}

async function asInput(sessionId, { type, path, digest, media_type: mediaType }) {
  if (type !== "image") return { type, path };
  const response = await request("GET", sessionPath(sessionId, "images", digest));
  return { type, media_type: mediaType, data: await base64Of(await response.blob()) };
}
