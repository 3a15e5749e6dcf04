/** The actions of a session. */

import { get, sessionPath } from "../core/http.js";
import { go } from "../core/router.js";
import { saveAs } from "../core/save.js";
import { html, useState } from "../core/ui.js";
import { say, sayProblem } from "./basic.js";
import { Menu } from "./menu.js";
import { SecretsDialog } from "./secrets_dialog.js";
import { SessionDialog } from "./session_dialogs.js";
import { SettingsDialog } from "./settings_dialog.js";

/** Messages per page of an export. */
const EXPORT_PAGE = 500;

/** The actions menu: `state` is the SessionState, `session` the API's Session. */
export function SessionActions({ state, session }) {
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const exports = [
    { label: "Export as OpenAI messages", onClick: () => saveHistory(state.id, "openai") },
    { label: "Export as Anthropic messages", onClick: () => saveHistory(state.id, "anthropic") },
  ];
  const items = [
    { label: "Rename", onClick: () => setDialog("rename") },
    { label: "Settings", onClick: () => setDialog("settings") },
    { label: "Secrets", onClick: () => setDialog("secrets") },
    { label: "Fork", onClick: () => setDialog("fork") },
    ...exports,
    { label: "Delete", kind: "danger", onClick: () => setDialog("delete") },
  ];
  const onDeleted = () => {
    say("Session deleted.");
    go("#/");
  };
  // A sub-agent is changed and deleted with its session.
  return html`<${Menu} label="Actions" items=${session.kind === "subagent" ? exports : items} />
    ${dialog === "settings" && html`<${SettingsDialog} session=${session} onClose=${close} />`}
    ${dialog === "secrets" && html`<${SecretsDialog} sessionId=${state.id} onClose=${close} />`}
    <${SessionDialog} name=${dialog} session=${session} onClose=${close} onDeleted=${onDeleted} />`;
}

async function saveHistory(id, format) {
  try {
    saveAs(`${id}.${format}.json`, await exported(id, format), "application/json");
  } catch (problem) {
    sayProblem(problem);
  }
}

/** The history in a provider's format, which can be the `history` of a new session. */
async function exported(id, format) {
  const messages = [];
  let after = null;
  do {
    const query = new URLSearchParams({ format, limit: EXPORT_PAGE });
    if (after !== null) query.set("after", after);
    const page = await get(`${sessionPath(id, "messages")}?${query}`);
    messages.push(...page.items);
    after = page.next_cursor;
  } while (after !== null);
  return JSON.stringify({ format, messages }, null, 2);
}
