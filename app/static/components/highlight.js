/** Code with its words in colours, as the worker finds them with highlight.js. */

import { inBlocks } from "./long_text.js";
import { plain } from "../core/format.js";
import { BoundedWorker } from "../core/in_worker.js";
import { pieces } from "../core/text_rows.js";
import { html, useEffect, useState } from "../core/ui.js";

/** Longer code is shown without colours. */
const LONGEST = 50_000;
/** Coloured texts that are kept for rows that scroll out of sight and back. */
const KEPT = 200;

const LANGUAGES = new Set(
  (
    "bash c cpp css diff dockerfile go ini java javascript json makefile markdown python ruby rust shell sql" +
    " typescript xml yaml"
  ).split(" "),
);
const ALIASES = {
  ...{ sh: "bash", zsh: "bash", ksh: "bash", console: "shell", "shell-session": "shell", terminal: "shell" },
  ...{ h: "c", cc: "cpp", cxx: "cpp", "c++": "cpp", hpp: "cpp", hh: "cpp", scss: "css", less: "css", patch: "diff" },
  ...{ docker: "dockerfile", golang: "go", toml: "ini", cfg: "ini", conf: "ini", properties: "ini", env: "ini" },
  ...{ js: "javascript", mjs: "javascript", cjs: "javascript", jsx: "javascript", ts: "typescript", tsx: "typescript" },
  ...{ json5: "json", jsonc: "json", jsonl: "json", mk: "makefile", make: "makefile", md: "markdown", py: "python" },
  ...{ pyi: "python", py3: "python", rb: "ruby", rs: "rust", html: "xml", svg: "xml", xhtml: "xml", yml: "yaml" },
};

/** The language's name here, or null for one that has no colours. */
export function languageNamed(name) {
  const lower = name.toLowerCase();
  const found = Object.hasOwn(ALIASES, lower) ? ALIASES[lower] : lower;
  return LANGUAGES.has(found) ? found : null;
}

/** The language of a file by its name, or "". */
export function languageOf(path) {
  const name = path.slice(path.lastIndexOf("/") + 1);
  if (/^(GNU)?makefile$/i.test(name)) return "makefile";
  if (/^(Docker|Container)file/i.test(name)) return "dockerfile";
  return name.includes(".") ? (languageNamed(name.slice(name.lastIndexOf(".") + 1)) ?? "") : "";
}

/** A block of code, in a language by its common name. While it `isOpen` it has no colours yet. */
export function Code({ text, language, isOpen = false }) {
  const shown = plain(text);
  const known = isOpen || shown.length > LONGEST ? null : languageNamed(language ?? "");
  const tokens = useTokens(shown, known);
  // Without a direction of its own, each change has the browser look for one in all of it, where it is digits alone.
  return html`<pre class="code" dir="ltr">
    ${tokens ? pieces(shown, 0, shown.length, tokens).map(coloured) : blocks(shown)}
  </pre>`;
}

function blocks(text) {
  const cut = inBlocks(text);
  return cut.length === 1 ? text : cut.map((piece, place) => html`<div key=${place} class="block">${piece}</div>`);
}

/** A piece of a text, in the colour of its kind if it has one. */
export const coloured = ({ text, scope }) =>
  scope ? html`<span class=${`hl-${scope.split(".")[0]}`}>${text}</span>` : text;

const worker = new BoundedWorker();
const colours = new Map();

/** The coloured stretches of a text, or null until they are found and where they are not. */
function useTokens(text, language) {
  const key = `${language}\n${text}`;
  const [, ready] = useState(null);
  useEffect(() => {
    if (!language || colours.has(key)) return undefined;
    let isWanted = true;
    highlighted(text, language).then((tokens) => {
      keep(key, tokens);
      if (isWanted) ready(key);
    });
    return () => {
      isWanted = false;
    };
  }, [key]);
  return language ? (colours.get(key) ?? null) : null;
}

function keep(key, tokens) {
  colours.set(key, tokens);
  if (colours.size > KEPT) colours.delete(colours.keys().next().value);
}

/** The stretches of a text that have a colour, `{start, end, scope}`, in a language that `languageOf` gave; null where
 * they are not found in time. */
export const highlighted = (text, language) => worker.run("colours", text, language);
