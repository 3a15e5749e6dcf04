/** The workspace that a new session begins with: empty, with files from this machine, or with a git repository. */

import { bytes, count, plainLine } from "../core/format.js";
import { html, useContext, useId, useRef } from "../core/ui.js";
import { secretNames } from "../state/draft_inputs.js";
import { clearIncoming, incoming, takeArchive, takeFolder } from "../state/incoming.js";
import { ChoiceField, Form, TextField } from "./fields.js";

const CHOICES = { "": "Empty", files: "Folder or archive", git: "Git repository" };
const WHY = {
  ignored: "ignored by .gitignore",
  never: "never included",
  unreadable: "could not be read",
};
/** How many paths are listed. */
const MOST_LISTED = 200;

export function WorkspaceField() {
  const { values, change } = useContext(Form);
  const name = useId();
  return html`<fieldset class="workspace">
    <legend>Workspace</legend>
    <div class="segments" role="radiogroup" aria-label="What the workspace starts with">
      ${Object.entries(CHOICES).map(
        ([value, label]) => html`<label key=${value}>
          <input
            type="radio"
            name=${name}
            value=${value}
            checked=${values.from === value}
            onChange=${() => change({ from: value })}
          />
          <span>${label}</span>
        </label>`,
      )}
    </div>
    ${values.from === "" && html`<p class="help">You can also drop a folder or an archive anywhere on this page.</p>`}
    ${values.from === "files" && html`<${Files} />`}
    ${values.from === "git" && html`<${Git} />`}
  </fieldset>`;
}

function Files() {
  const error = useContext(Form).errors.files;
  const id = useId();
  const folder = useRef(null);
  const archive = useRef(null);
  // So that the same one can be chosen again.
  const chosen = (take) => ({ currentTarget }) => {
    const files = [...currentTarget.files];
    currentTarget.value = "";
    if (files.length) take(files);
  };
  const press = (input) => () => input.current.click();
  return html`<div class="drop-zone" role="group" aria-label="Files" aria-describedby=${error ? `${id}-error` : undefined}>
    ${incoming.value ? html`<${Chosen} chosen=${incoming.value} />` : html`<p>Drop a folder or an archive here</p>`}
    <div class="drop-ways">
      <label class="hidden" for="${id}-folder">Folder to upload</label>
      <input
        ref=${folder}
        id="${id}-folder"
        type="file"
        webkitdirectory
        hidden
        onChange=${chosen(takeFolder)}
      />
      <button type="button" aria-invalid=${error ? "true" : undefined} onClick=${press(folder)}>Choose folder…</button>
      <label class="hidden" for="${id}-archive">Archive to upload</label>
      <input
        ref=${archive}
        id="${id}-archive"
        type="file"
        accept=".tar,.tgz,.gz,.zst,.zip"
        hidden
        onChange=${chosen(([file]) => takeArchive(file))}
      />
      <button type="button" onClick=${press(archive)}>Choose archive…</button>
      ${incoming.value && html`<button type="button" class="plain" onClick=${clearIncoming}>Remove</button>`}
    </div>
    ${error && html`<p class="field-error" id="${id}-error" role="alert">${error}</p>`}
    <p class="help">
      Archives can be .tar, .tar.gz, .tar.zst or .zip. A folder is packed without <code>.git</code>,${" "}
      <code>node_modules</code>, caches, and what its <code>.gitignore</code> lists.
    </p>
  </div>`;
}

function Chosen({ chosen: { status, name, kind, files, bytes: size, left, problem } }) {
  if (status === "failed") return html`<p class="field-error" role="alert">${plainLine(problem)}</p>`;
  const amount = kind === "archive" ? bytes(size) : `${count(files)} ${files === 1 ? "file" : "files"}, ${bytes(size)}`;
  return html`<p role="status" aria-busy=${status === "reading"}>
      <strong class="chosen-name">${plainLine(name)}</strong> ${status === "reading" && "Reading…"}
      <span class="dim numbers">${amount}</span>
    </p>
    ${status === "ready" && left.length > 0 && html`<${Left} left=${left} />`}`;
}

function Left({ left }) {
  const shown = left.slice(0, MOST_LISTED);
  const names = left.slice(0, 3).map(({ path }) => plainLine(path)).join(", ");
  return html`<details class="left-out">
    <summary>Left out: ${names}${left.length > 3 && ` and ${count(left.length - 3)} more`}</summary>
    <ul tabindex="0" aria-label="What was left out">
      ${shown.map(
        ({ path, why }) => html`<li key=${path}><code>${plainLine(path)}</code> <span class="dim">${WHY[why]}</span></li>`,
      )}
      ${left.length > shown.length && html`<li class="dim">and ${count(left.length - shown.length)} more</li>`}
    </ul>
  </details>`;
}

function Git() {
  const { values } = useContext(Form);
  const names = secretNames(values);
  const credential = names.length ? "Used only to clone" : "To choose a credential, add it under Secrets";
  const plainText = { autocomplete: "off", autocapitalize: "none", spellcheck: false };
  return html`<div class="git-fields">
    <${TextField}
      name="gitUrl"
      label="Repository URL"
      inputmode="url"
      placeholder="https://git.example.com/team/project.git"
      help="HTTPS or SSH. It is cloned before the first step."
      ...${plainText}
    />
    <div class="fields">
      <${TextField} name="gitRef" label="Branch, tag or commit" placeholder="default branch" ...${plainText} />
      <${TextField} name="gitDepth" label="Depth (commits)" placeholder="full history" inputmode="numeric" />
      <${ChoiceField} name="gitCredential" label="Credential" help=${credential} disabled=${names.length === 0}>
        <option value="">None</option>
        ${names.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
      <//>
    </div>
  </div>`;
}
