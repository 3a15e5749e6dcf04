/** The form for a new session: task, model, workspace, secrets, and all other options under "More". */

import { bytes } from "../core/format.js";
import { go, sessionLink } from "../core/router.js";
import { html, useEffect, useRef, useState } from "../core/ui.js";
import { contentOf } from "../state/attachments.js";
import {
  changeDraft, checkModel, clearDraft, createSession, draft, errorsOf, hasSettings, requestOf, resetSettings,
  taskImages,
} from "../state/draft.js";
import { secretNames } from "../state/draft_inputs.js";
import { clearIncoming, incoming, takeDropped } from "../state/incoming.js";
import { loadModels, models } from "../state/models.js";
import { AttachButton, Attached, onPasteInto } from "./attachments.js";
import { CreateMore } from "./create_more.js";
import { AreaField, Form } from "./fields.js";
import { ModelField } from "./model_field.js";
import { sayProblem } from "./basic.js";
import { SecretFields } from "./secret_fields.js";
import { UploadProgress } from "./upload_progress.js";
import { WorkspaceField } from "./workspace_field.js";

/** Fields that are visible without opening anything. */
const IN_SIGHT = ["task", "model", "otherModel", "files", "gitUrl", "gitRef", "gitDepth", "gitCredential"];

const isOfSecrets = (name) => name.startsWith("secrets");

/** `onClose` is set if the form can be closed. */
export function CreateForm({ onClose }) {
  const form = useRef(null);
  const { errors, rest, isBusy, upload, start } = useStart(onClose);
  const [isMore, setMore] = useState(false);
  const [hasSecrets, setHasSecrets] = useState(draft.peek().secrets.length > 0);
  useEffect(() => {
    loadModels().then(() => checkModel(models.peek()), sayProblem);
    // The user has opened the form, so it takes the focus.
    if (onClose) form.current.querySelector("textarea").focus();
  }, []);
  useEffect(() => {
    const names = Object.keys(errors);
    if (names.some(isOfSecrets)) setHasSecrets(true);
    if (names.some((name) => !IN_SIGHT.includes(name) && !isOfSecrets(name))) setMore(true);
    // Once they are open.
    requestAnimationFrame(() => form.current?.querySelector('[aria-invalid="true"]')?.focus());
  }, [errors]);
  const submit = (event) => {
    event.preventDefault();
    start();
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  };
  const names = secretNames(draft.value);
  return html`<${Form.Provider} value=${{ values: draft.value, change: changeDraft, errors }}>
    <form
      ref=${form}
      class="create"
      aria-label="New session"
      onSubmit=${submit}
      onKeyDown=${onKeyDown}
      noValidate
    >
      <div class="task-field">
        <${AreaField}
          name="task"
          label="Task"
          rows="4"
          placeholder="What should the agent do?"
          onPaste=${onPasteInto(taskImages)}
        />
        <${Attached} attachments=${taskImages} />
        <${AttachButton} attachments=${taskImages} />
      </div>
      <${ModelField} />
      <${WorkspaceField} />
      <details open=${hasSecrets} onToggle=${(event) => setHasSecrets(event.currentTarget.open)}>
        <summary>Secrets${names.length > 0 && html` <span class="dim">${names.join(", ")}</span>`}</summary>
        <${SecretFields} />
      </details>
      <details open=${isMore} onToggle=${(event) => setMore(event.currentTarget.open)}>
        <summary>More${hasSettings(draft.value) && html` <span class="dim">settings changed</span>`}</summary>
        <${CreateMore} />
        ${hasSettings(draft.value) &&
        html`<p><button type="button" onClick=${resetSettings}>Use the server's settings</button></p>`}
      </details>
      ${rest.length > 0 &&
      html`<div class="failure" role="alert">${rest.map((text) => html`<p key=${text}>${text}</p>`)}</div>`}
      ${upload && html`<${UploadProgress} ...${upload} />`}
      <footer>
        <button type="submit" class="primary" aria-disabled=${isBusy ? "true" : undefined} aria-busy=${isBusy}>
          Start
        </button>
        ${onClose && html`<button type="button" onClick=${onClose}>Cancel</button>`}
        <span class="dim keys"><kbd>Ctrl</kbd> + <kbd>Enter</kbd> to start</span>
      </footer>
    </form>
  <//>`;
}

/** Takes files that are dropped on the page of the form: images for the task, or what the workspace starts with. */
export function takeFiles(event) {
  if (isForTask(event)) return void taskImages.add([...event.dataTransfer.files]);
  changeDraft({ from: "files" });
  takeDropped(event.dataTransfer);
}

/** Whether images were dropped on the task, and not files that the workspace begins with. */
function isForTask({ target, dataTransfer: { files } }) {
  return target.closest(".task-field") !== null && [...files].every(({ type }) => type.startsWith("image/"));
}

/** The archive to send with the draft, or null; adds an error if it is not ready. */
function archiveOf({ from }, errors) {
  if (from !== "files") return null;
  const { status, archive = null } = incoming.value ?? {};
  if (!status) errors.files = "Choose a folder or an archive, or start with an empty workspace.";
  else if (status === "reading") errors.files = "The files are still being read.";
  else if (status === "failed") errors.files = "These files could not be read.";
  return archive;
}

/** A problem's messages, as `errorsOf` has them. */
function wrongOf(problem, values, archive) {
  // An image that cannot be read.
  if (!problem.body) return { errors: { task: problem.message }, rest: [] };
  const { limit_bytes: limit } = problem.body;
  if (!archive || problem.code !== "too_large") return errorsOf(problem, values);
  return { errors: { files: `These files are larger than the ${bytes(limit)} that the server accepts.` }, rest: [] };
}

/** The draft's errors, the `upload` that runs, and `start`, which creates the session, closes the form and opens the
 * session. Whatever fails, the draft is kept. */
function useStart(onClose) {
  const [wrong, setWrong] = useState({ errors: {}, rest: [] });
  const [isBusy, setBusy] = useState(false);
  const [upload, setUpload] = useState(null);
  const aborting = useRef(null);
  // The form of the first visit also disappears when its own session is in the list.
  useEffect(() => () => onClose && aborting.current?.abort(), []);
  async function start() {
    if (isBusy) return;
    const values = draft.value;
    const { body, errors } = requestOf(values);
    const archive = archiveOf(values, errors);
    setWrong({ errors, rest: [] });
    if (Object.keys(errors).length > 0) return;
    setBusy(true);
    const abort = (aborting.current = new AbortController());
    const onProgress = (share) => setUpload({ share, size: archive.size, onCancel: () => abort.abort() });
    if (archive) onProgress(0);
    try {
      body.task = await contentOf(body.task, taskImages.items.value);
      const { id } = await createSession(body, archive, { onProgress, signal: abort.signal });
      clearDraft();
      clearIncoming();
      onClose?.();
      go(sessionLink(id));
    } catch (problem) {
      if (!abort.signal.aborted) setWrong(wrongOf(problem, values, archive));
      setBusy(false);
      setUpload(null);
    }
  }
  return { ...wrong, isBusy, upload, start };
}
