/** What changed in a session's workspace between two checkpoints: the list of files, and the patch once it is needed. */

import { get, post, request, sessionPath } from "../core/http.js";
import { isPartOf, partsOf } from "../core/patch.js";
import { batch, signal } from "../core/ui.js";

/** How much of a patch is loaded to be shown, in bytes; the download has all of it. */
export const SHOWN_BYTES = 8 * 1024 * 1024;

const held = new WeakMap();
/** Whether the server has said that it takes no checkpoints. */
let isUnavailable = false;

/** The changes of a session; what is chosen stays so while other views are shown. */
export function changesOf(state) {
  if (!held.has(state)) held.set(state, new Changes(state.id));
  return held.get(state);
}

/** The address of a comparison; null is the first checkpoint for `from`, and now for `to`. */
export function changesPath(id, from, to, format = null) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ from, to, format })) if (value !== null) query.set(name, value);
  const path = sessionPath(id, "changes");
  return query.size ? `${path}?${query}` : path;
}

class Changes {
  /** The checkpoints, oldest first; null until they are loaded. */
  checkpoints = signal(null);
  /** The chosen ids; null is the first checkpoint, and the workspace as it is now. */
  from = signal(null);
  to = signal(null);
  /** The API's ChangeList, and when it was loaded (ms); null until then. */
  list = signal(null);
  loadedAt = signal(null);
  loading = signal(false);
  /** Why the list or the checkpoints could not be loaded, or null. */
  problem = signal(null);
  /** The patch: `{parts, isCut, problem}`, with `parts` by index in the list; null until it is loaded. */
  patch = signal(null);
  /** Files whose diffs were opened or closed by the user: a map from path to whether it is open. */
  opened = signal(new Map());
  #id;
  #request = 0;
  #patching = null;
  #summaries = new Map();
  #checkpointsLoad = null;

  constructor(id) {
    this.#id = id;
  }

  get id() {
    return this.#id;
  }

  /** Compares two checkpoints from now on. */
  choose(from, to) {
    if (from === this.from.value && to === this.to.value && this.list.value) return;
    batch(() => {
      this.from.value = from;
      this.to.value = to;
      this.list.value = null;
      this.opened.value = new Map();
      this.#dropPatch();
    });
  }

  #dropPatch() {
    this.#patching = null;
    this.patch.value = null;
  }

  /** Loads the checkpoints; calls that overlap share one request. A failure is thrown. */
  loadCheckpoints() {
    this.#checkpointsLoad ??= get(sessionPath(this.#id, "checkpoints"))
      .then(({ items }) => (this.checkpoints.value = items))
      .finally(() => (this.#checkpointsLoad = null));
    return this.#checkpointsLoad;
  }

  /** The same for the ends of runs, which are shown without checkpoints too. */
  async findCheckpoints() {
    if (isUnavailable) return;
    await this.loadCheckpoints().catch(({ code }) => (isUnavailable = code === "checkpoints_unavailable"));
  }

  /** Loads the checkpoints and the list. What is shown stays until the new list is there. */
  async refresh() {
    const number = (this.#request += 1);
    this.loading.value = true;
    try {
      const [, list] = await Promise.all([this.loadCheckpoints(), this.#compared()]);
      if (number === this.#request) this.#take(list);
    } catch (problem) {
      if (number === this.#request) this.problem.value = problem;
    } finally {
      if (number === this.#request) this.loading.value = false;
    }
  }

  #take(list) {
    batch(() => {
      // The diffs stay in place if nothing has changed.
      if (JSON.stringify(list) !== JSON.stringify(this.list.value)) {
        this.list.value = list;
        this.#dropPatch();
      }
      if (this.patch.value?.problem) this.#dropPatch();
      const { from_checkpoint: from, to_checkpoint: to } = list;
      if (from !== null && to !== null) this.summary(from, to, false).value = list;
      this.loadedAt.value = Date.now();
      this.problem.value = null;
    });
  }

  async #compared() {
    try {
      return await get(changesPath(this.#id, this.from.value, this.to.value));
    } catch (problem) {
      // The oldest checkpoints are removed if there are too many.
      if (problem.code !== "checkpoint_not_found") throw problem;
      this.from.value = this.to.value = null;
      return get(changesPath(this.#id, null, null));
    }
  }

  /** A signal of the changes between two checkpoints: null until they are loaded, which this starts if `load`. */
  summary(from, to, load) {
    const key = `${from} ${to}`;
    const found = this.#summaries.get(key) ?? signal(null);
    this.#summaries.set(key, found);
    if (load && found.peek() === null && !found.isLoading) {
      found.isLoading = true;
      get(changesPath(this.#id, from, to))
        .then((list) => (found.value = list))
        // The run's end is shown without its files.
        .catch(() => {})
        .finally(() => (found.isLoading = false));
    }
    return found;
  }

  /** Loads the patch, once. */
  loadPatch() {
    this.#patching ??= this.#loadPatch();
    return this.#patching;
  }

  async #loadPatch() {
    const list = this.list.value;
    let patch;
    try {
      patch = this.#matched(await readPatch(this.#id, this.from.value, this.to.value), list);
    } catch (problem) {
      patch = { parts: [], isCut: false, problem };
    }
    if (list !== this.list.value) return;
    this.patch.value = patch;
    if (patch.problem) this.#patching = null;
  }

  /** The patch's parts in the order of the list. While a run is active, the workspace may have changed between the two
   * requests. */
  #matched({ text, isCut }, list) {
    const parts = partsOf(text);
    if (isCut) parts.pop();
    const count = list.items.length;
    const isWhole = isCut || list.truncated || parts.length === count;
    if (!isWhole || parts.some((part, index) => index < count && !isPartOf(part, list.items[index]))) {
      throw new Error("The workspace has changed since the list was loaded. Refresh it.");
    }
    return { parts, isCut, problem: null };
  }

  /** The whole patch as text. Throws an Error if it is too large to be copied. */
  async text() {
    const { text, isCut } = await readPatch(this.#id, this.from.value, this.to.value);
    if (isCut) throw new Error("The patch is too large to copy. Download it instead.");
    if (text.includes("\ufffd")) throw new Error("The patch is not UTF-8 text. Download it instead.");
    return text;
  }

  /** What a restore would change: from a checkpoint to now, to be read in reverse. */
  preview(checkpointId) {
    return get(changesPath(this.#id, checkpointId, null));
  }

  /** Makes the workspace as it was at a checkpoint; returns the API's RestoreResult. */
  async restore(checkpointId) {
    const result = await post(sessionPath(this.#id, "checkpoints", checkpointId, "restore"));
    await this.refresh();
    return result;
  }

  /** Opens or closes the diff of a file. */
  open(path, isOpen) {
    this.opened.value = new Map(this.opened.value).set(path, isOpen);
  }
}

/** The beginning of a patch as text: `{text, isCut}`. */
async function readPatch(id, from, to) {
  const abort = new AbortController();
  const response = await request("GET", changesPath(id, from, to, "patch"), { signal: abort.signal });
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  const pieces = [];
  for (let size = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return { text: pieces.join("") + decoder.decode(), isCut: false };
    size += value.length;
    pieces.push(decoder.decode(value, { stream: true }));
    if (size < SHOWN_BYTES) continue;
    abort.abort();
    return { text: pieces.join(""), isCut: true };
  }
}
