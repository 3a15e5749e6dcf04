/** Images to send: what the server accepts, and their content as base64. */

/** The server's limits for the images of one message. */
export const MOST_IMAGES = 20;
export const LARGEST_BYTES = 5 * 1024 * 1024;
export const LARGEST_TOTAL_BYTES = 20 * 1024 * 1024;
/** The accepted media types. */
export const MEDIA_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** Each media type, with the first bytes of its files as text. */
const SIGNATURES = [
  ["image/png", /^\x89PNG\r\n\x1a\n/],
  ["image/jpeg", /^\xff\xd8\xff/],
  ["image/gif", /^GIF8[79]a/],
  ["image/webp", /^RIFF[^]{4}WEBP/],
];

/** The media type of a file by its first bytes, as the server determines it: names may lie. Null for anything else.
 * Throws if the file cannot be read. */
export async function mediaTypeOf(file) {
  const head = String.fromCharCode(...new Uint8Array(await file.slice(0, 12).arrayBuffer()));
  return SIGNATURES.find(([, signature]) => signature.test(head))?.[0] ?? null;
}

/** The content of a file as base64. Throws if it cannot be read. */
export function base64Of(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
