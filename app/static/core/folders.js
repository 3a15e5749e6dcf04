/** Folders of the user's machine, as browsers show them: dropped ones, and chosen ones.
 *
 * A folder has a `list()`, which resolves to its entries: `{name, list}` for a folder, `{name, file}` for a file, whose
 * `file()` resolves to a File. Both reject for what cannot be read.
 */

import ignore from "../vendor/ignore.js";

/** Never taken: git's own data, and what tools install or can recreate. */
const NEVER = [".git", "node_modules", ".venv", "__pycache__"];
const IGNORES = ".gitignore";

/** The entries of a drop. Must be called in its event, after which the browser forgets them. */
export function droppedEntries(transfer) {
  const items = [...transfer.items].filter(({ kind }) => kind === "file");
  return items.map((item) => {
    const entry = item.webkitGetAsEntry?.();
    return entry ? fromEntry(entry) : fromFile(item.getAsFile());
  });
}

const fromFile = (file) => ({ name: file.name, file: async () => file });

function fromEntry(entry) {
  if (!entry.isDirectory) return { name: entry.name, file: () => new Promise((...done) => entry.file(...done)) };
  return { name: entry.name, list: () => listed(entry.createReader()) };
}

/** Readers return the entries in pieces; an empty piece is the last. */
async function listed(reader) {
  const entries = [];
  for (;;) {
    const piece = await new Promise((...done) => reader.readEntries(...done));
    if (piece.length === 0) return entries.map(fromEntry);
    entries.push(...piece);
  }
}

/** The folder whose files were chosen with an input for folders. */
export function chosenFolder(files) {
  const [name] = files[0].webkitRelativePath.split("/");
  const root = new Map();
  for (const file of files) {
    const steps = file.webkitRelativePath.split("/").slice(1);
    let folder = root;
    for (const step of steps.slice(0, -1)) {
      if (!folder.has(step)) folder.set(step, new Map());
      folder = folder.get(step);
    }
    folder.set(steps.at(-1), file);
  }
  return { name, list: async () => entriesOf(root) };
}

function entriesOf(folder) {
  return [...folder].map(([name, held]) =>
    held instanceof Map ? { name, list: async () => entriesOf(held) } : { name, file: async () => held },
  );
}

/** The files of a folder and the folders in it, one folder at a time: pieces of `{path, file}`. `onLeft(path, why)` gets
 * what is left out: "ignored" by a .gitignore, "never" taken, or "unreadable". */
export async function* filesIn(folder, onLeft, above = "", rules = []) {
  const entries = await folder.list();
  const own = entries.find(({ name, file }) => file && name === IGNORES);
  const here = own ? [...rules, { above, matcher: await matcherOf(own) }] : rules;
  const taken = entries.filter(({ name, list }) => {
    const path = `${above}${name}${list ? "/" : ""}`;
    const why = NEVER.includes(name) ? "never" : isIgnored(path, here) ? "ignored" : null;
    if (why) onLeft(path, why);
    return why === null;
  });
  const read = async ({ name, file }) => {
    try {
      return { path: above + name, file: await file() };
    } catch {
      onLeft(above + name, "unreadable");
      return null;
    }
  };
  yield (await Promise.all(taken.filter(({ file }) => file).map(read))).filter(Boolean);
  for (const inner of taken) {
    if (inner.list) yield* filesIn(inner, onLeft, `${above}${inner.name}/`, here);
  }
}

async function matcherOf(entry) {
  const text = await (await entry.file()).text();
  return ignore({ ignorecase: false }).add(text);
}

/** Whether git ignores a path, which ends in a slash for a folder: the nearest .gitignore that names it decides. */
function isIgnored(path, rules) {
  for (const { above, matcher } of rules.toReversed()) {
    const { ignored, unignored } = matcher.test(path.slice(above.length));
    if (ignored || unignored) return ignored;
  }
  return false;
}
