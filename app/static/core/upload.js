/** Uploads with progress, which fetch does not report; so this uses XMLHttpRequest. */

import { needsKey, Problem } from "./http.js";

/** Sends a file with PUT; `onProgress(share)` is called with 0 to 1. Throws `Problem` unless the response is 2xx. */
export async function upload(path, file, onProgress) {
  await send("PUT", path, file, { type: "application/octet-stream", onProgress });
}

/** Sends a body and returns the JSON of the response, or null; the browser knows the type of a form. When `signal` is
 * aborted, so is the request, with its reason. Throws `Problem` unless the response is 2xx. */
export function send(method, path, body, { type, onProgress, signal }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, path);
    if (type) request.setRequestHeader("Content-Type", type);
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 1);
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) return resolve(bodyOf(request));
      if (request.status === 401) needsKey.value = true;
      return reject(new Problem(request.status, bodyOf(request) ?? { title: request.statusText }));
    };
    // Also called if the file cannot be read, as with a folder, or if the server closes the connection on a large file.
    const detail = "Upload failed: the server was not reached or refused the size, or the browser could not read a file.";
    request.onerror = () => reject(new Problem(0, { code: "unreachable", detail }));
    request.onabort = () => reject(signal.reason);
    signal?.addEventListener("abort", () => request.abort());
    request.send(body);
  });
}

function bodyOf(request) {
  try {
    return JSON.parse(request.responseText);
  } catch {
    return null;
  }
}
