/** What a new session starts with and has to produce, as form values and in the request: its source, its secrets, and
 * the schema of its output. */

/** The form's fields, empty. `from` is "" for an empty workspace, "files" for what `incoming` has, or "git". */
export const NO_INPUTS = {
  from: "",
  gitUrl: "",
  gitRef: "",
  gitDepth: "",
  gitCredential: "",
  secrets: [],
  output: "",
};

const SECRET_NAME = /^[A-Z_][A-Z0-9_]{0,99}$/;
let lastSecret = 0;

/** An empty row of the list of secrets: `{key, name, value}`. */
export const newSecret = () => ({ key: (lastSecret += 1), name: "", value: "" });

const isUsed = ({ name, value }) => name.trim() !== "" || value !== "";

/** The names of the secrets that are entered. */
export const secretNames = ({ secrets }) => [...new Set(secrets.map(({ name }) => name.trim()).filter(Boolean))];

/** Why a name or a value of a secret cannot be sent, or null. */
export function nameProblem(name, others = []) {
  if (!SECRET_NAME.test(name.trim())) return "Use capitals, digits and underscores, as in API_TOKEN.";
  return others.includes(name.trim()) ? "This name is used above." : null;
}
export const valueProblem = (value) => (value === "" ? "Enter a value." : null);

/** The form's field for an API field such as `secrets.API_TOKEN`; null if it is no secret of the form. */
export function secretField(name, { secrets }) {
  const found = secrets.find((secret) => name === `secrets.${secret.name.trim()}`);
  return found ? `secrets.${found.key}.value` : null;
}

/** `{NAME: value}`, undefined if there are none; errors are those of `secrets.KEY.name` and `secrets.KEY.value`. */
export function secretsOf({ secrets }, errors) {
  const found = {};
  for (const { key, name, value } of secrets.filter(isUsed)) {
    const problems = { name: nameProblem(name, Object.keys(found)), value: valueProblem(value) };
    for (const [field, problem] of Object.entries(problems)) if (problem) errors[`secrets.${key}.${field}`] = problem;
    found[name.trim()] = value;
  }
  return Object.keys(found).length ? found : undefined;
}

export function sourceOf(values, errors) {
  const { from, gitUrl, gitRef, gitDepth, gitCredential } = values;
  if (from !== "git") return undefined;
  if (!gitUrl.trim()) errors.gitUrl = "Enter the repository's URL.";
  const depth = gitDepth.trim() === "" ? undefined : Number(gitDepth);
  if (depth !== undefined && !(Number.isInteger(depth) && depth > 0)) errors.gitDepth = "Enter a number of commits.";
  const credential = secretNames(values).includes(gitCredential) ? gitCredential : undefined;
  return { git: { url: gitUrl.trim(), ref: gitRef.trim() || undefined, depth, credential } };
}

export function outputOf({ output }, errors) {
  if (!output.trim()) return undefined;
  try {
    return { schema: JSON.parse(output) };
  } catch (error) {
    errors.output = `This is not valid JSON: ${error.message}.`;
    return undefined;
  }
}
