/** Uploads with progress, which fetch does not report; so this uses XMLHttpRequest. */

import { needsKey, Problem } from "./http.js";

/** Sends a file with PUT; `onProgress(share)` is called with 0 to 1. Throws `Problem` unless the response is 2xx. */
export function upload(path, file, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", path);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 1);
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) return resolve();
      if (request.status === 401) needsKey.value = true;
      return reject(new Problem(request.status, bodyOf(request)));
    };
    // Also called if the file cannot be read, as with a folder, or if the server closes the connection on a large file.
    const detail = "Upload failed: the server could not be reached, or the browser could not read the file.";
    request.onerror = () => reject(new Problem(0, { code: "unreachable", detail }));
    request.send(file);
  });
}

function bodyOf(request) {
  try {
    return JSON.parse(request.responseText);
  } catch {
    return { title: request.statusText };
  }
}
