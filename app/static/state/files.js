/** The files of a session's workspace, loaded as folders are opened. */

import { get, request, sessionPath, filePath } from "../core/http.js";
import { upload } from "../core/upload.js";
import { batch, signal } from "../core/ui.js";

/** How much of a file is shown, in bytes. */
export const SHOWN_BYTES = 512 * 1024;
/** How many folders are loaded at a time. */
const AT_ONCE = 4;
const known = new WeakMap();

/** The files of a session; open folders and files stay open while other views are shown. */
export function filesOf(state) {
  if (!known.has(state)) known.set(state, new Files(state.id));
  return known.get(state);
}

/** The folder of a path; "" is the workspace itself. */
export const folderOf = (path) => path.slice(0, Math.max(0, path.lastIndexOf("/")));

export const nameOf = (path) => path.slice(path.lastIndexOf("/") + 1);

export const joined = (folder, name) => (folder ? `${folder}/${name}` : name);

class Files {
  /** Folders by path: `{items, truncated, problem, loading}`, with `items` null until loaded. */
  folders = signal(new Map());
  expanded = signal(new Set());
  refreshing = signal(false);
  /** The open file, or null: `{path, loading, problem, text, size}`, with `text` null if it is not text. */
  file = signal(null);
  /** Uploads, oldest first: `{id, path, share, status: "sending" | "done" | "failed", detail}`. */
  uploads = signal([]);
  #id;
  #requests = new Map();
  #reading = 0;
  #again = false;
  #lastUpload = 0;

  constructor(id) {
    this.#id = id;
  }

  /** Loads the entries of a folder. A failure is stored with the folder. */
  async load(path) {
    const number = (this.#requests.get(path) ?? 0) + 1;
    this.#requests.set(path, number);
    this.#set(path, { loading: true });
    try {
      const page = await get(`${sessionPath(this.#id, "files")}?${new URLSearchParams({ path })}`);
      if (this.#requests.get(path) !== number) return;
      const items = page.items.toSorted(byName);
      this.#set(path, { items, truncated: page.truncated, problem: null, loading: false });
    } catch (problem) {
      if (this.#requests.get(path) === number) this.#set(path, { problem, loading: false });
    }
  }

  #set(path, changes) {
    const before = this.folders.value.get(path) ?? { items: null, truncated: false, problem: null };
    this.folders.value = new Map(this.folders.value).set(path, { ...before, ...changes });
  }

  /** The entry of a path in its folder, if loaded. */
  entry(path) {
    return this.folders.value.get(folderOf(path))?.items?.find((item) => item.path === path);
  }

  /** Whether this path may exist: looks in its folder, or asks the server if that is not fully listed. */
  async has(path) {
    if (this.entry(path)) return true;
    const { items, truncated, problem } = this.folders.value.get(folderOf(path)) ?? {};
    if (items && !truncated && !problem) return false;
    try {
      await request("GET", filePath(this.#id, path), { headers: { Range: "bytes=0-0" } });
      return true;
    } catch (failure) {
      // Other statuses mean that it exists: an empty file has no such byte, and folders and links are not served.
      return failure.status !== 404;
    }
  }

  open(path) {
    this.expanded.value = new Set(this.expanded.value).add(path);
    return this.load(path);
  }

  close(path) {
    const expanded = new Set(this.expanded.value);
    expanded.delete(path);
    this.expanded.value = expanded;
  }

  /** Reloads what is open. A refresh requested while another one runs follows it. */
  async refresh() {
    this.#again = true;
    if (this.refreshing.value) return;
    this.refreshing.value = true;
    try {
      while (this.#again) {
        this.#again = false;
        await this.#refreshOnce();
      }
    } finally {
      this.refreshing.value = false;
    }
  }

  async #refreshOnce() {
    await this.load("");
    const left = [...this.expanded.value].filter((path) => this.#isThere(path)).sort();
    const work = async () => {
      for (let path = left.shift(); path !== undefined; path = left.shift()) await this.load(path);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    this.#dropGone();
    if (this.file.value) await this.#read(this.file.value.path);
  }

  /** Whether a folder may still exist, according to its parent. */
  #isThere(path) {
    const holder = this.folders.value.get(folderOf(path));
    return !holder?.items || holder.items.some((item) => item.path === path && item.type === "directory");
  }

  #dropGone() {
    const isKept = (path) => path === "" || this.#isThere(path);
    batch(() => {
      this.expanded.value = new Set([...this.expanded.value].filter(isKept));
      this.folders.value = new Map([...this.folders.value].filter(([path]) => isKept(path)));
    });
  }

  /** Opens a file, replacing the open one. */
  async show(path) {
    this.file.value = { path, loading: true, problem: null, text: null, size: null };
    await this.#read(path);
  }

  hide() {
    this.#reading += 1;
    this.file.value = null;
  }

  async #read(path) {
    const number = ++this.#reading;
    let found;
    try {
      found = { problem: null, ...(await this.#beginning(path)) };
    } catch (problem) {
      found = { problem, text: null, size: null };
    }
    if (this.#reading !== number) return;
    const { text, size, problem } = this.file.value;
    const isSame = text === found.text && size === found.size && problem?.code === found.problem?.code;
    if (!isSame || this.file.value.loading) this.file.value = { path, loading: false, ...found };
  }

  /** The first bytes of a file as text, or null if they are not text, and the size of the whole file. */
  async #beginning(path) {
    try {
      // An empty file has no first byte to request.
      const headers = this.entry(path)?.size === 0 ? {} : { Range: `bytes=0-${SHOWN_BYTES - 1}` };
      const response = await request("GET", filePath(this.#id, path), { headers });
      const bytes = new Uint8Array(await response.arrayBuffer());
      const total = response.headers.get("Content-Range")?.split("/")[1];
      const size = total ? Number(total) : bytes.length;
      return { size, text: asText(bytes.subarray(0, SHOWN_BYTES), size > bytes.length) };
    } catch (problem) {
      if (problem.status === 416) return { size: 0, text: "" };
      throw problem;
    }
  }

  /** Uploads files into a folder, one after another, and tracks them in `uploads`. */
  async upload(files, folder) {
    const queued = files.map((file) => [file, this.#addUpload(joined(folder, file.name))]);
    for (const [file, id] of queued) {
      const { path } = this.uploads.value.find((item) => item.id === id);
      try {
        await upload(filePath(this.#id, path), file, (share) => this.#changeUpload(id, { share }));
        this.#changeUpload(id, { share: 1, status: "done" });
      } catch (problem) {
        this.#changeUpload(id, { status: "failed", detail: problem.message });
      }
    }
    await this.refresh();
  }

  #addUpload(path) {
    const id = ++this.#lastUpload;
    this.uploads.value = [...this.uploads.value, { id, path, share: 0, status: "sending", detail: "" }];
    return id;
  }

  #changeUpload(id, changes) {
    this.uploads.value = this.uploads.value.map((item) => (item.id === id ? { ...item, ...changes } : item));
  }

  /** Removes finished uploads from the list. */
  clearUploads() {
    this.uploads.value = this.uploads.value.filter(({ status }) => status === "sending");
  }
}

/** Made when it is first needed, since that takes 20 ms. */
let order = null;

/** Folders first, then by name. */
function byName(one, other) {
  const isFolder = (item) => item.type === "directory";
  if (isFolder(one) !== isFolder(other)) return isFolder(one) ? -1 : 1;
  order ??= new Intl.Collator("en", { numeric: true });
  return order.compare(nameOf(one.path), nameOf(other.path));
}

/** The bytes as UTF-8 text, or null if they contain NUL or invalid UTF-8. */
function asText(bytes, isPartial) {
  if (bytes.includes(0)) return null;
  try {
    // A character may be cut off at the end of a part.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: isPartial });
  } catch {
    return null;
  }
}
