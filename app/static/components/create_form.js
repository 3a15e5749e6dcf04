/** Starts a session: what is to be done, by which model, and, under "More", everything else. */

import { go, sessionLink } from "../core/router.js";
import { html, useEffect, useRef, useState } from "../core/ui.js";
import { changeDraft, clearDraft, createSession, draft, errorsOf, requestOf } from "../state/draft.js";
import { loadModels } from "../state/models.js";
import { CreateMore } from "./create_more.js";
import { AreaField, Form } from "./fields.js";
import { ModelField } from "./model_field.js";
import { sayProblem } from "./basic.js";

/** Fields that are seen without opening "More". */
const IN_SIGHT = ["task", "model", "otherModel"];

/** `onClose` is for where the form can be put away. */
export function CreateForm({ onClose }) {
  const form = useRef(null);
  const { errors, rest, isBusy, start } = useStart(onClose);
  const [isMore, setMore] = useState(false);
  useEffect(() => {
    loadModels().catch(sayProblem);
    // Somebody has asked for the form, so the writing begins at once.
    if (onClose) form.current.querySelector("textarea").focus();
  }, []);
  useEffect(() => {
    if (Object.keys(errors).some((name) => !IN_SIGHT.includes(name))) setMore(true);
    // Once "More" is open.
    requestAnimationFrame(() => form.current?.querySelector('[aria-invalid="true"]')?.focus());
  }, [errors]);
  const submit = (event) => {
    event.preventDefault();
    start();
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  };
  return html`<${Form.Provider} value=${{ values: draft.value, change: changeDraft, errors }}>
    <form ref=${form} class="create" aria-label="New session" onSubmit=${submit} onKeyDown=${onKeyDown} noValidate>
      <${AreaField} name="task" label="Task" rows="4" placeholder="What is to be done?" />
      <${ModelField} />
      <details open=${isMore} onToggle=${(event) => setMore(event.currentTarget.open)}>
        <summary>More</summary>
        <${CreateMore} />
      </details>
      ${rest.length > 0 &&
      html`<div class="failure" role="alert">${rest.map((text) => html`<p key=${text}>${text}</p>`)}</div>`}
      <footer>
        <button type="submit" class="primary" aria-disabled=${isBusy ? "true" : undefined} aria-busy=${isBusy}>
          Start
        </button>
        ${onClose && html`<button type="button" onClick=${onClose}>Not now</button>`}
        <span class="dim keys"><kbd>Ctrl</kbd> + <kbd>Enter</kbd> starts</span>
      </footer>
    </form>
  <//>`;
}

/** What is wrong with the draft, and `start`, which makes the session, puts the form away and goes there. */
function useStart(onClose) {
  const [wrong, setWrong] = useState({ errors: {}, rest: [] });
  const [isBusy, setBusy] = useState(false);
  async function start() {
    if (isBusy) return;
    const { body, errors } = requestOf(draft.value);
    setWrong({ errors, rest: [] });
    if (Object.keys(errors).length > 0) return;
    setBusy(true);
    try {
      const { id } = await createSession(body);
      clearDraft();
      onClose?.();
      go(sessionLink(id));
    } catch (problem) {
      setWrong(errorsOf(problem));
      setBusy(false);
    }
  }
  return { ...wrong, isBusy, start };
}
