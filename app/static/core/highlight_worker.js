/** Tokens of code, made away from the page: some texts take a highlighter minutes. */

let core = null;
const loaded = new Map();

async function highlighter(language) {
  core ??= import("../vendor/highlight/core.js").then((module) => module.default);
  const library = await core;
  if (!loaded.has(language)) {
    loaded.set(
      language,
      import(`../vendor/highlight/${language}.js`).then((module) => library.registerLanguage(language, module.default)),
    );
  }
  await loaded.get(language);
  return library;
}

self.onmessage = async ({ data: { text, language } }) => {
  try {
    const library = await highlighter(language);
    // From here on the time counts, and not that of the network.
    self.postMessage("begun");
    self.postMessage(library.highlight(text, { language, ignoreIllegals: true })._emitter.rootNode.children);
  } catch {
    loaded.delete(language);
    self.postMessage(null);
  }
};
