/** Code with its words in colours, by the tokens of highlight.js. Languages are loaded as they are met. */

import { inBlocks } from "./long_text.js";
import { plain } from "../core/format.js";
import { highlighted } from "../core/highlighter.js";
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
  const tree = useTree(shown, known);
  return html`<pre class="code">${tree ? tree.map(element) : pieces(shown)}</pre>`;
}

function pieces(text) {
  const cut = inBlocks(text);
  return cut.length === 1 ? text : cut.map((piece, place) => html`<div key=${place} class="block">${piece}</div>`);
}

function element(node) {
  if (typeof node === "string") return node;
  const children = node.children.map(element);
  return node.scope ? html`<span class=${`hl-${node.scope.split(".")[0]}`}>${children}</span>` : children;
}

const trees = new Map();

/** The tokens of a text as a tree, or null while there are none. */
function useTree(text, language) {
  const key = `${language}\n${text}`;
  const [, ready] = useState(null);
  useEffect(() => {
    if (!language || trees.has(key)) return undefined;
    let isWanted = true;
    highlighted(text, language).then((tree) => {
      keep(key, tree);
      if (isWanted) ready(key);
    });
    return () => {
      isWanted = false;
    };
  }, [key]);
  return language ? (trees.get(key) ?? null) : null;
}

function keep(key, tree) {
  trees.set(key, tree);
  if (trees.size > KEPT) trees.delete(trees.keys().next().value);
}
