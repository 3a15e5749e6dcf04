/** The workspace as a tree of folders and files. */

import { bytes, count, day, plainLine } from "../core/format.js";
import { html, useEffect, useId, useRef, useState } from "../core/ui.js";
import { folderOf, nameOf } from "../state/files.js";
import { Ago } from "./basic.js";
import { FixedRows, reveal } from "./fixed_rows.js";

/** The height of a row in px, as in the style sheet. */
const ROW = 28;

const KINDS = { directory: "folder", file: "file", symlink: "link", other: "special file" };

/** The tree, navigable with arrow keys. `onDrop(transfer, folder)` gets dropped files; `active` is the signal of the
 * path that has the keyboard cursor. */
export function FileTree({ files, active, onDrop }) {
  const box = useRef(null);
  const id = useId();
  const [dropped, setDropped] = useState(null);
  const rows = rowsOf(files);
  const at = rows.findIndex(({ path, notice }) => !notice && path === active.value);
  useEffect(() => {
    if (at >= 0 && box.current.contains(document.activeElement)) reveal(box.current, at, ROW);
  }, [at]);
  const go = (index) => {
    if (rows[index] && !rows[index].notice) active.value = rows[index].path;
  };
  const press = (index) => {
    go(index);
    act(files, rows[index]);
  };
  const onKeyDown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (keyed(event.key, { rows, at, go, files })) event.preventDefault();
  };
  const onDragOver = (event) => {
    event.preventDefault();
    setDropped(folderUnder(event, rows));
  };
  const row = (index) => html`<${Row}
    key=${index}
    id=${`${id}-${index}`}
    row=${rows[index]}
    index=${index}
    isActive=${index === at}
    isOpen=${files.file.value?.path === rows[index].path}
    isTarget=${dropped !== null && isWithin(rows[index], dropped)}
    onPress=${() => press(index)}
  />`;
  return html`<${FixedRows}
    box=${box}
    class="file-tree"
    inner=${{
      role: "tree",
      tabindex: 0,
      "aria-label": "Files",
      "aria-activedescendant": at >= 0 ? `${id}-${at}` : undefined,
      onKeyDown,
      onFocus: () => at < 0 && go(rows.findIndex(({ notice }) => !notice)),
    }}
    count=${rows.length}
    height=${ROW}
    row=${row}
    onDragOver=${onDragOver}
    onDragLeave=${({ relatedTarget: to }) => box.current.contains(to) || setDropped(null)}
    onDrop=${(event) => {
      event.preventDefault();
      event.stopPropagation();
      setDropped(null);
      onDrop(event.dataTransfer, folderUnder(event, rows));
    }}
  />`;
}

/** The tree's rows, from top to bottom: entries, and notices about folders. */
function rowsOf(files) {
  const folders = files.folders.value;
  const expanded = files.expanded.value;
  const rows = [];
  const walk = (folder, level) => {
    const found = folders.get(folder);
    for (const item of found?.items ?? []) {
      const isFolder = item.type === "directory";
      const isExpanded = isFolder && expanded.has(item.path);
      rows.push({ ...item, level, isFolder, isExpanded });
      if (isExpanded) walk(item.path, level + 1);
    }
    const notice = noticeOf(found);
    if (notice) rows.push({ path: folder, level, notice });
  };
  walk("", 1);
  return rows;
}

function noticeOf(folder) {
  if (folder?.problem) return folder.problem.message;
  if (!folder?.items) return "Loading…";
  if (folder.truncated) return `Only the first ${count(folder.items.length)} entries are shown.`;
  return folder.items.length === 0 ? "Empty." : null;
}

function act(files, { path, type, isFolder, isExpanded }) {
  if (isFolder && isExpanded) files.close(path);
  else if (isFolder) files.open(path);
  else if (type === "file") files.show(path);
}

/** Handles a key of the tree; returns false if it has no meaning there. */
function keyed(key, { rows, at, go, files }) {
  const row = rows[at];
  const next = (from, step) => {
    let index = from + step;
    while (rows[index]?.notice) index += step;
    return index;
  };
  switch (key) {
    case "ArrowDown": go(next(at, 1)); return true;
    case "ArrowUp": go(next(at, -1)); return true;
    case "Home": go(next(-1, 1)); return true;
    case "End": go(next(rows.length, -1)); return true;
    case "Enter":
    case " ":
      if (row) act(files, row);
      return true;
    case "ArrowRight":
      if (row?.isFolder && !row.isExpanded) files.open(row.path);
      else if (row?.isFolder) go(next(at, 1));
      return true;
    case "ArrowLeft":
      if (row?.isExpanded) files.close(row.path);
      else if (row) go(rows.findIndex(({ path, notice }) => !notice && path === folderOf(row.path)));
      return true;
    default: return key.length === 1 && goToName(key, { rows, at, go });
  }
}

/** Moves to the next entry whose name starts with the letter. */
function goToName(letter, { rows, at, go }) {
  const order = [...rows.keys()].map((place) => (at + 1 + place) % rows.length);
  const begins = ({ path, notice }) => !notice && nameOf(path).toLowerCase().startsWith(letter.toLowerCase());
  const found = order.find((index) => begins(rows[index]));
  if (found !== undefined) go(found);
  return found !== undefined;
}

function folderUnder(event, rows) {
  const index = event.target.closest?.("[data-index]")?.dataset.index;
  const row = index === undefined ? null : rows[Number(index)];
  if (!row) return "";
  return row.isFolder || row.notice ? row.path : folderOf(row.path);
}

const isWithin = ({ path }, folder) => folder === "" || path === folder || path.startsWith(`${folder}/`);

function markOf({ type, isFolder, isExpanded }) {
  if (isFolder) return isExpanded ? "▾" : "▸";
  return type === "symlink" ? "↪" : "";
}

function Row({ id, row, index, isActive, isOpen, isTarget, onPress }) {
  const { path, level, notice, type, size, modified_at: modifiedAt, isFolder, isExpanded } = row;
  const shared = { id, role: "treeitem", "aria-level": level, "data-index": index, style: { "--level": level } };
  const state = `${isActive ? "active" : ""} ${isTarget ? "target" : ""}`;
  if (notice) {
    return html`<div ...${shared} class="tree-row notice ${state}" aria-disabled="true"><span>${notice}</span></div>`;
  }
  return html`<div
    ...${shared}
    class="tree-row ${type} ${state}"
    aria-expanded=${isFolder ? isExpanded : undefined}
    aria-selected=${isOpen}
    title=${`${plainLine(path)}\n${KINDS[type]}${isFolder ? "" : `, ${bytes(size)}`}\n${day(modifiedAt)}`}
    onClick=${onPress}
  >
    <span class="tree-mark" aria-hidden="true">${markOf(row)}</span>
    <span class="tree-name">${plainLine(nameOf(path))}</span>
    <span class="tree-size dim">${type === "file" ? bytes(size) : type === "symlink" ? "link" : ""}</span>
    <span class="tree-time dim"><${Ago} time=${modifiedAt} /></span>
  </div>`;
}
