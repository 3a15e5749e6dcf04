/** Syntax highlighting with highlight.js, which takes minutes for some texts: only the worker calls it. */

import { flatTokens } from "./text_rows.js";
import library from "../vendor/highlight/core.js";

const loaded = new Map();

/** Loads a language and returns a function that finds the colored ranges of the text. Throws if the language cannot be
 * loaded. */
export async function colorsOf(text, language) {
  if (!loaded.has(language)) {
    loaded.set(
      language,
      import(`../vendor/highlight/${language}.js`).then((module) => library.registerLanguage(language, module.default)),
    );
  }
  await loaded.get(language).catch((error) => {
    loaded.delete(language);
    throw error;
  });
  return () => flatTokens(library.highlight(text, { language, ignoreIllegals: true })._emitter.rootNode.children);
}
