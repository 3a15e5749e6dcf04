/** The form for a new session: task, model, and all other options under "More". */

import { go, sessionLink } from "../core/router.js";
import { html, useEffect, useRef, useState } from "../core/ui.js";
import { changeDraft, clearDraft, createSession, draft, errorsOf, requestOf } from "../state/draft.js";
import { loadModels } from "../state/models.js";
import { CreateMore } from "./create_more.js";
import { AreaField, Form } from "./fields.js";
import { ModelField } from "./model_field.js";
import { sayProblem } from "./basic.js";

/** Fields that are visible without opening "More". */
const IN_SIGHT = ["task", "model", "otherModel"];

/** `onClose` is set if the form can be closed. */
export function CreateForm({ onClose }) {
  const form = useRef(null);
  const { errors, rest, isBusy, start } = useStart(onClose);
  const [isMore, setMore] = useState(false);
  useEffect(() => {
    loadModels().catch(sayProblem);
    // The user has opened the form, so it takes the focus.
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
      <${AreaField} name="task" label="Task" rows="4" placeholder="What should the agent do?" />
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
        ${onClose && html`<button type="button" onClick=${onClose}>Cancel</button>`}
        <span class="dim keys"><kbd>Ctrl</kbd> + <kbd>Enter</kbd> to start</span>
      </footer>
    </form>
  <//>`;
}

/** The draft's errors, and `start`, which creates the session, closes the form and opens the session. */
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
