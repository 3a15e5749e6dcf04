/** The files that a new session begins with: an archive, or a folder that is packed in the browser. */

import { chosenFolder, droppedEntries, filesIn } from "../core/folders.js";
import { tarOf } from "../core/tar.js";
import { signal } from "../core/ui.js";

const ARCHIVE = /\.(tar|tar\.gz|tgz|tar\.zst|tzst|zip)$/i;
/** How many files are read at a time. */
const AT_ONCE = 32;
/** The bytes of "#!". */
const SCRIPT = [0x23, 0x21];

/** What was chosen, or null: `{status, name, kind, files, bytes, left, archive, problem}`. `status` is "reading", "ready"
 * or "failed"; `kind` "archive" or "folder", of which `files`, `bytes` and `left`, a list of `{path, why}`, are known;
 * `archive` is the File or Blob to send once ready. Kept while the page is open, like the draft. */
export const incoming = signal(null);

let takes = 0;

export function clearIncoming() {
  takes += 1;
  incoming.value = null;
}

/** Takes what was dropped: an archive as it is, and everything else packed. */
export function takeDropped(transfer) {
  const entries = droppedEntries(transfer);
  if (entries.length === 0) return undefined;
  const [first] = entries;
  if (entries.length > 1) return pack({ name: `${entries.length} items`, list: async () => entries });
  if (first.list) return pack(first);
  if (!ARCHIVE.test(first.name)) return pack({ name: first.name, list: async () => entries });
  return guarded(first.name, "archive", async () => takeArchive(await first.file()));
}

/** Takes an archive that was chosen, whatever its name. */
export function takeArchive(file) {
  takes += 1;
  incoming.value = { status: "ready", name: file.name, kind: "archive", bytes: file.size, left: [], archive: file };
}

/** Takes the folder whose files were chosen. */
export const takeFolder = (files) => pack(chosenFolder(files));

function pack(folder) {
  return guarded(folder.name, "folder", async (isCurrent) => {
    const found = [];
    const left = [];
    let bytes = 0;
    for await (const piece of filesIn(folder, (path, why) => left.push({ path, why }))) {
      if (!isCurrent()) return;
      const readable = await withModes(piece, left);
      found.push(...readable);
      bytes += readable.reduce((sum, { file }) => sum + file.size, 0);
      incoming.value = { ...incoming.value, files: found.length, bytes };
    }
    if (!isCurrent()) return;
    const ready = { status: "ready", files: found.length, bytes, left, archive: tarOf(found) };
    incoming.value = { ...incoming.value, ...ready };
  });
}

/** Runs `take(isCurrent)` unless something else is taken meanwhile. */
async function guarded(name, kind, take) {
  const number = (takes += 1);
  const isCurrent = () => number === takes;
  incoming.value = { status: "reading", name, kind, files: 0, bytes: 0, left: [], archive: null };
  try {
    await take(isCurrent);
  } catch (error) {
    if (!isCurrent()) return;
    incoming.value = { ...incoming.value, status: "failed", problem: `“${name}” could not be read (${error.message}).` };
  }
}

/** The files with their modes. Browsers do not tell which files are executable; scripts that name their interpreter are.
 * A file that cannot be read is left out. */
async function withModes(files, left) {
  const found = [];
  for (let at = 0; at < files.length; at += AT_ONCE) {
    const some = files.slice(at, at + AT_ONCE);
    const heads = await Promise.all(some.map(({ file }) => file.slice(0, 2).arrayBuffer().catch(() => null)));
    some.forEach(({ path, file }, place) => {
      if (heads[place] === null) left.push({ path, why: "unreadable" });
      else found.push({ path, file, mode: isScript(new Uint8Array(heads[place])) ? 0o755 : 0o644 });
    });
  }
  return found;
}

const isScript = (head) => SCRIPT.every((byte, place) => head[place] === byte);
