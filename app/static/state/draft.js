/** The draft of a new session: the form's values, the request made from them, and the fields of its errors. */

import { post } from "../core/http.js";
import { remembered } from "../core/preferences.js";
import { signal } from "../core/ui.js";
import { send } from "../core/upload.js";
import { uuid7 } from "../core/uuid.js";
import { Attachments } from "./attachments.js";
import { NO_INPUTS, outputOf, secretField, secretsOf, sourceOf } from "./draft_inputs.js";

/** The settings that a new session takes over from the one before. */
const SETTINGS = {
  model: "",
  otherModel: "",
  compaction: "",
  sandbox: "",
  network: "",
  maxSteps: "",
  maxSeconds: "",
  maxCost: "",
  maxTokens: "",
  approval: "",
  tools: [],
  commands: "",
  timeout: "",
};
const EMPTY = { task: "", title: "", systemPrompt: "", ...SETTINGS, ...NO_INPUTS };

const isSettings = (found) =>
  Object.entries(SETTINGS).every(([name, value]) =>
    Array.isArray(value) ? Array.isArray(found[name]) : typeof found[name] === typeof value,
  );
const recent = remembered("new-session", null, isSettings);

const settingsOf = (values) => Object.fromEntries(Object.keys(SETTINGS).map((name) => [name, values[name]]));

/** Whether settings other than the model differ from the server's. */
export const hasSettings = ({ model, otherModel, ...values }) =>
  JSON.stringify(settingsOf({ ...values, model: "", otherModel: "" })) !== JSON.stringify(SETTINGS);

/** The value of `model` that selects `otherModel`. */
export const OTHER = "other";

/** Kept while the page is open, so that closing the form loses nothing. */
export const draft = signal({ ...EMPTY, ...recent.peek() });

/** Whether the form is open. */
export const isCreating = signal(false);

/** The images of the task, kept like the draft. */
export const taskImages = new Attachments();

export function changeDraft(changes) {
  draft.value = { ...draft.value, ...changes };
}

/** Empties the form; its settings stay, and are remembered. */
export function clearDraft() {
  recent.value = settingsOf(draft.peek());
  draft.value = { ...EMPTY, ...recent.peek() };
  taskImages.clear();
}

/** Replaces the settings with the server's. */
export function resetSettings() {
  recent.value = null;
  changeDraft(SETTINGS);
}

/** Gives up a model that the server no longer has. */
export function checkModel(known) {
  const { model } = draft.peek();
  if (model && model !== OTHER && !known.some(({ name }) => name === model)) changeDraft({ model: "" });
}

/** The form's fields, by API field name. */
const FIELDS = {
  task: "task",
  title: "title",
  model: "model",
  compaction: "compaction",
  sandbox: "sandbox",
  "sandbox.network": "network",
  "limits.max_steps": "maxSteps",
  "limits.max_seconds": "maxSeconds",
  "limits.max_cost_usd": "maxCost",
  "limits.max_tokens": "maxTokens",
  approval: "approval",
  "approval.policy.tools": "tools",
  "approval.policy.commands": "commands",
  "approval.timeout_s": "timeout",
  system_prompt: "systemPrompt",
  output: "output",
  secrets: "secrets",
  archive: "files",
  "source.git": "gitUrl",
  "source.git.ref": "gitRef",
  "source.git.depth": "gitDepth",
  "source.git.credential": "gitCredential",
};

/** The form's field for errors that name none, by error code. */
const BY_CODE = {
  unknown_model: "model",
  missing_api_key: "model",
  unknown_tool: "tools",
  approval_not_allowed: "approval",
  sandbox_not_allowed: "sandbox",
  invalid_archive: "files",
  archive_too_large: "files",
  workspace_full: "files",
  invalid_source: "gitUrl",
  source_not_allowed: "gitUrl",
  unknown_secret: "gitCredential",
  secret_key_missing: "secrets",
  too_many_images: "task",
  images_too_large: "task",
  invalid_image_data: "task",
  image_type_mismatch: "task",
  image_too_large: "task",
  session_images_full: "task",
};

/** The request for a draft: `{body, errors}`, errors by field, empty if the body can be sent. */
export function requestOf(values) {
  const errors = {};
  if (!values.task.trim()) errors.task = "Enter a task.";
  const model = values.model === OTHER ? values.otherModel.trim() : values.model;
  if (values.model === OTHER && !model) errors.model = "Enter the model name as provider/model.";
  const body = {
    task: values.task,
    title: values.title.trim(),
    model,
    system_prompt: values.systemPrompt.trim() && values.systemPrompt,
    sandbox: sandboxOf(values),
    compaction: values.compaction,
    limits: limitsOf(values, errors),
    approval: approvalOf(values, errors),
    output: outputOf(values, errors),
    source: sourceOf(values, errors),
    secrets: secretsOf(values, errors),
  };
  return { body: given(body), errors };
}

/** The values that are not empty; undefined if all are. */
function given(values) {
  const found = Object.entries(values).filter(([, value]) => value !== "" && value !== undefined);
  return found.length ? Object.fromEntries(found) : undefined;
}

function sandboxOf({ sandbox, network }) {
  if (!sandbox || !network) return sandbox;
  return { kind: sandbox, network: network === "on" };
}

function limitsOf(values, errors) {
  return given({
    max_steps: numberOf(values, "maxSteps", errors),
    max_seconds: numberOf(values, "maxSeconds", errors),
    max_cost_usd: numberOf(values, "maxCost", errors),
    max_tokens: numberOf(values, "maxTokens", errors),
  });
}

function approvalOf(values, errors) {
  const timeout = numberOf(values, "timeout", errors);
  const commands = values.commands.split("\n").filter((line) => line.trim());
  const some = { tools: values.tools, commands };
  return given({ policy: values.approval === "some" ? some : values.approval, timeout_s: timeout });
}

/** The field's number; null for "none", which removes a limit; undefined if empty. */
function numberOf(values, field, errors) {
  const text = values[field].trim().replaceAll(",", "");
  if (text === "") return undefined;
  if (text.toLowerCase() === "none") return null;
  const number = Number(text);
  if (!Number.isFinite(number)) errors[field] = "Enter a number.";
  return number;
}

/** A problem's messages by field, `{errors, rest}`: `rest` are those that belong to no field of the form. `values` are
 * those of a new session. */
export function errorsOf(problem, values = NO_INPUTS) {
  const named = problem.body.errors ?? [{ field: problem.body.field ?? "", message: problem.message }];
  const errors = {};
  const rest = [];
  for (const { field, message } of named) {
    const place = secretField(field, values) ?? fieldOf(field) ?? BY_CODE[problem.code];
    if (place && !errors[place]) errors[place] = message;
    else rest.push(place || !field ? message : `${field}: ${message}`);
  }
  return { errors, rest };
}

/** The form's field for an API field such as `approval.policy.commands.0`: the innermost that contains it. */
function fieldOf(name) {
  const steps = name.split(".");
  for (let length = steps.length; length > 0; length -= 1) {
    const found = FIELDS[steps.slice(0, length).join(".")];
    if (found) return found;
  }
  return null;
}

const NOTHING = { id: null, request: null, archive: null };
let last = NOTHING;

/** Creates a session and returns it. The same body and archive keep the same id until they succeed, so that a retry
 * after a lost response does not create a second session. With an `archive`, a File or Blob, `upload` is `{onProgress,
 * signal}` as for `send`. */
export async function createSession(body, archive = null, upload = {}) {
  const request = JSON.stringify(body);
  if (last.request !== request || last.archive !== archive) last = { id: uuid7(), request, archive };
  const whole = { id: last.id, ...body };
  const session = archive
    ? await send("POST", "/v1/sessions", formOf(whole, archive), upload)
    : await post("/v1/sessions", whole);
  last = NOTHING;
  return session;
}

function formOf(body, archive) {
  const form = new FormData();
  form.append("session", JSON.stringify(body));
  form.append("archive", archive, archive.name ?? "folder.tar");
  return form;
}
