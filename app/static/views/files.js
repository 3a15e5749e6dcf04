/** The session's workspace: its tree, an open file, uploads and downloads. */

import { Button, Confirm, Failure, say } from "../components/basic.js";
import { FileTree } from "../components/file_tree.js";
import { FileView } from "../components/file_view.js";
import { percent, plainLine } from "../core/format.js";
import { sessionPath } from "../core/http.js";
import { route, setQuery } from "../core/router.js";
import { html, useEffect, useId, useRef, useSignal, useState } from "../core/ui.js";
import { filesOf, folderOf, joined } from "../state/files.js";

/** Steps often end close together: the tree is reloaded once for all steps within this time, in ms. */
const SETTLE_MS = 400;

export function FilesView({ state }) {
  const files = filesOf(state);
  const active = useSignal(files.file.peek()?.path ?? null);
  useFresh(state, files);
  useFileOfAddress(files);
  const [conflict, setConflict] = useState(null);
  const panes = useRef(null);
  useFocusOfClosed(files.file.value !== null, panes);
  const root = files.folders.value.get("");
  const { path } = files.file.value ?? {};
  const target = targetOf(files, active.value);
  const take = async (found, folder) => {
    const replaced = await existing(files, found, folder);
    if (replaced.length) setConflict({ found, folder, replaced });
    else await files.upload(found, folder);
  };
  const drop = (transfer, folder) => take(droppedFiles(transfer), folder);
  if (root?.problem && !root.items) {
    return html`<div class="page"><${Failure} problem=${root.problem} onRetry=${() => files.load("")} /></div>`;
  }
  return html`<div
    class="files-view"
    onDragOver=${(event) => event.preventDefault()}
    onDrop=${(event) => (event.preventDefault(), drop(event.dataTransfer, ""))}
  >
    <${Toolbar} state=${state} files=${files} target=${target} onFiles=${(found) => take(found, target)} />
    <${Uploads} files=${files} />
    <div ref=${panes} class="files-panes ${files.file.value ? "has-file" : ""}">
      <${FileTree} files=${files} active=${active} onDrop=${drop} />
      ${files.file.value
        ? html`<${FileView} files=${files} sessionId=${state.id} modifiedAt=${files.entry(path)?.modified_at} />`
        : html`<p class="file-none dim">Select a file to view it, or drop files on a folder to upload them.</p>`}
    </div>
    ${conflict && html`<${Replace} files=${files} ...${conflict} onClose=${() => setConflict(null)} />`}
  </div>`;
}

/** Opens the file that the address names, and keeps the address at the open file. */
function useFileOfAddress(files) {
  const { path } = route.value.query;
  useEffect(() => {
    if (path && path !== files.file.peek()?.path) files.show(path);
  }, [path]);
  const shown = files.file.value?.path;
  useEffect(() => {
    const { path: now = "" } = files.file.peek() ?? {};
    if (now !== (route.peek().query.path ?? "")) setQuery({ path: now, line: "" });
  }, [shown]);
}

/** Loads the tree when the view is opened, and whenever a step or a run ends. */
function useFresh(state, files) {
  const { steps, status } = state.session.value;
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) {
      isFirst.current = false;
      files.refresh();
      return undefined;
    }
    const timer = setTimeout(() => files.refresh(), SETTLE_MS);
    return () => clearTimeout(timer);
  }, [steps, status]);
}

/** Moves the focus to the tree when a file is closed, since its Close button disappears. */
function useFocusOfClosed(isOpen, panes) {
  const wasOpen = useRef(isOpen);
  useEffect(() => {
    const isClosed = wasOpen.current && !isOpen;
    wasOpen.current = isOpen;
    if (!isClosed || document.activeElement !== document.body) return;
    panes.current?.querySelector('[role="tree"]')?.focus({ preventScroll: true });
  }, [isOpen]);
}

/** The target folder of the upload button: the selected folder, or that of the selected file. */
function targetOf(files, path) {
  const item = path && files.entry(path);
  if (!item) return "";
  return item.type === "directory" ? path : folderOf(path);
}

function Toolbar({ state, files, target, onFiles }) {
  const input = useRef(null);
  const id = useId();
  const onChange = ({ currentTarget }) => {
    const found = [...currentTarget.files];
    // So that the same file can be chosen again.
    currentTarget.value = "";
    onFiles(found);
  };
  return html`<div class="toolbar">
    <${Button} onClick=${() => files.refresh()}>Refresh<//>
    <label class="hidden" for=${id}>Files to upload</label>
    <input ref=${input} id=${id} type="file" multiple hidden onChange=${onChange} />
    <button type="button" onClick=${() => input.current.click()}>Upload files</button>
    <span class="dim">into ${target ? html`<code>${plainLine(target)}/</code>` : "the workspace"}</span>
    <span class="spacer"></span>
    <a class="button" href=${sessionPath(state.id, "archive")} download=${`${state.id}.tar`}>Download all (.tar)</a>
  </div>`;
}

/** The names of files that an upload would replace. */
async function existing(files, found, folder) {
  await files.load(folder);
  const names = [];
  for (const { name } of found) if (await files.has(joined(folder, name))) names.push(name);
  return names;
}

/** The dropped files without folders, which browsers provide as unreadable files. */
function droppedFiles(transfer) {
  const items = [...transfer.items].filter(({ kind }) => kind === "file");
  const isFolder = (item) => item.webkitGetAsEntry?.()?.isDirectory;
  if (items.some(isFolder)) say("Folders can't be uploaded. Drop the files in them instead.");
  return items.filter((item) => !isFolder(item)).map((item) => item.getAsFile());
}

function Replace({ files, found, folder, replaced, onClose }) {
  const names = replaced.slice(0, 5).map(plainLine).join(", ");
  const more = replaced.length > 5 ? ` and ${replaced.length - 5} more` : "";
  // The dialog closes at once; the view shows the upload's progress.
  const onConfirm = async () => void files.upload(found, folder);
  return html`<${Confirm}
    title=${replaced.length === 1 ? "Replace file?" : "Replace files?"}
    text=${`Already in the workspace: ${names}${more}.`}
    verb="Replace"
    onConfirm=${onConfirm}
    onClose=${onClose}
  />`;
}

function Uploads({ files }) {
  const uploads = files.uploads.value;
  if (uploads.length === 0) return null;
  const isOver = uploads.some(({ status }) => status !== "sending");
  return html`<section class="uploads" aria-label="Uploads">
    <ul>
      ${uploads.map(
        (item) => html`<li key=${item.id} class=${item.status}>
          <span class="upload-name">${plainLine(item.path)}</span>
          ${item.status === "sending" &&
          html`<progress value=${item.share} max="1" aria-label=${`Upload of ${plainLine(item.path)}`}></progress>
            <span class="dim numbers">${percent(item.share)}</span>`}
          ${item.status === "done" && html`<span class="badge good">uploaded</span>`}
          ${item.status === "failed" &&
          html`<span class="badge bad">not uploaded</span> <span role="alert">${item.detail}</span>`}
        </li>`,
      )}
    </ul>
    ${isOver && html`<button type="button" class="plain" onClick=${() => files.clearUploads()}>Clear list</button>`}
  </section>`;
}
