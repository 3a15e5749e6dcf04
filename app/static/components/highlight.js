/** Code with syntax highlighting by highlight.js, which runs in the worker. */

import { CopyButton } from "./copy_button.js";
import { inBlocks } from "./long_text.js";
import { plain } from "../core/format.js";
import { BoundedWorker } from "../core/in_worker.js";
import { pieces } from "../core/text_rows.js";
import { html, useEffect, useState } from "../core/ui.js";

/** Longer code, in characters, is shown without highlighting. */
const LONGEST = 50_000;
/** How many highlighted texts are kept for rows that scroll out of view and back. */
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

/** The name of a supported language, or null. */
export function languageNamed(name) {
  const lower = name.toLowerCase();
  const found = Object.hasOwn(ALIASES, lower) ? ALIASES[lower] : lower;
  return LANGUAGES.has(found) ? found : null;
}

/** The language of a file, by its name, or "". */
export function languageOf(path) {
  const name = path.slice(path.lastIndexOf("/") + 1);
  if (/^(GNU)?makefile$/i.test(name)) return "makefile";
  if (/^(Docker|Container)file/i.test(name)) return "dockerfile";
  return name.includes(".") ? (languageNamed(name.slice(name.lastIndexOf(".") + 1)) ?? "") : "";
}

/** A block of code, in a language given by its common name. While it `isOpen` it is not highlighted. */
export function Code({ text, language, isOpen = false }) {
  const shown = plain(text);
  const known = isOpen || shown.length > LONGEST ? null : languageNamed(language ?? "");
  const tokens = useTokens(shown, known);
  // Without an explicit direction, the browser searches all of the text for one on each change if it is only digits.
  return html`<div class="copyable">
    <pre class="code" dir="ltr">${tokens ? pieces(shown, 0, shown.length, tokens).map(colored) : blocks(shown)}</pre>
    ${!isOpen && html`<${CopyButton} text=${text} name="code" />`}
  </div>`;
}

/** Code like `LongText`: in a box that scrolls, with a label for screen readers. */
export function LongCode({ label, text, language }) {
  const tokens = useTokens(text, text.length > LONGEST ? null : language);
  return html`<pre class="long-text" tabindex="0" role="region" aria-label=${label} dir="ltr">
    ${tokens ? pieces(text, 0, text.length, tokens).map(colored) : blocks(text)}
  </pre>`;
}

function blocks(text) {
  const cut = inBlocks(text);
  return cut.length === 1 ? text : cut.map((piece, place) => html`<div key=${place} class="block">${piece}</div>`);
}

/** A piece of a text, in the color of its scope if it has one. */
export const colored = ({ text, scope }) =>
  scope ? html`<span class=${`hl-${scope.split(".")[0]}`}>${text}</span>` : text;

const worker = new BoundedWorker();
const cache = new Map();

/** The colored ranges of a text; null until they are found, and if they cannot be. */
function useTokens(text, language) {
  const key = `${language}\n${text}`;
  const [, ready] = useState(null);
  useEffect(() => {
    if (!language || cache.has(key)) return undefined;
    let isWanted = true;
    highlighted(text, language).then((tokens) => {
      keep(key, tokens);
      if (isWanted) ready(key);
    });
    return () => {
      isWanted = false;
    };
  }, [key]);
  return language ? (cache.get(key) ?? null) : null;
}

function keep(key, tokens) {
  cache.set(key, tokens);
  if (cache.size > KEPT) cache.delete(cache.keys().next().value);
}

/** The colored ranges of a text, `{start, end, scope}`, in a language from `languageOf`; null if they are not found in
 * time. */
export const highlighted = (text, language) => worker.run("colors", text, language);
