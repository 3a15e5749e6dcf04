/** Uploads that tell how far they are. fetch does not, so this is the one place for the older way. */

import { needsKey, Problem } from "./http.js";

/** Sends a file's bytes with PUT; `onProgress(share)` is called with 0 to 1. Throws `Problem` unless it is a 2xx. */
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
    // A file that cannot be read, as a folder, ends here too, and a server that hangs up on one that is too large.
    const detail = "It could not be sent: the server was not reached, or the browser could not read it.";
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
