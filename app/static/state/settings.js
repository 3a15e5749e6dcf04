/** A session's settings as form values, and the request that changes them. */

/** API names of the limits, by form field; an empty field means no limit. */
const LIMITS = { maxSteps: "max_steps", maxSeconds: "max_seconds", maxCost: "max_cost_usd", maxTokens: "max_tokens" };

/** The form's values for the API's Session. */
export function valuesOf({ model, limits, approval: { policy, timeout_s: timeout } }) {
  const rules = typeof policy === "object" ? policy : { tools: [], commands: [] };
  return {
    model,
    ...Object.fromEntries(Object.entries(LIMITS).map(([field, name]) => [field, asText(limits[name])])),
    approval: typeof policy === "object" ? "some" : policy,
    tools: rules.tools,
    commands: rules.commands.join("\n"),
    timeout: asText(timeout),
  };
}

const asText = (number) => (number == null ? "" : String(number));

/** The PATCH request for values changed from `before`: `{body, errors}`, errors by field. */
export function changesOf(values, before) {
  const errors = {};
  const body = {};
  if (values.model.trim() !== before.model) body.model = values.model.trim();
  if (!values.model.trim()) errors.model = "Enter the model name as provider/model.";
  const limits = limitsOf(values, before, errors);
  if (Object.keys(limits).length) body.limits = limits;
  const isApprovalChanged = isChanged(values, before, ["approval", "tools", "commands", "timeout"]);
  if (isApprovalChanged) body.approval = approvalOf(values, errors);
  return { body, errors };
}

const isChanged = (values, before, fields) =>
  fields.some((field) => JSON.stringify(values[field]) !== JSON.stringify(before[field]));

function limitsOf(values, before, errors) {
  const changed = Object.keys(LIMITS).filter((field) => values[field].trim() !== before[field]);
  return Object.fromEntries(changed.map((field) => [LIMITS[field], numberOf(values, field, errors)]));
}

function approvalOf(values, errors) {
  const commands = values.commands.split("\n").filter((line) => line.trim());
  const timeout = numberOf(values, "timeout", errors);
  const policy = values.approval === "some" ? { tools: values.tools, commands } : values.approval;
  return { policy, timeout_s: timeout };
}

function numberOf(values, field, errors) {
  const text = values[field].trim().replaceAll(",", "");
  if (text === "") return null;
  const number = Number(text);
  if (!Number.isFinite(number)) errors[field] = "Enter a number.";
  return number;
}
