/** Tokens of code, one text after the other, each within a time limit. */

/** Milliseconds for one text; an ordinary one of the greatest length takes a tenth of it. */
const LIMIT = 1000;
/** Milliseconds for the worker and a language to be loaded. */
const LOADING = 20_000;

const ADDRESS = new URL("./highlight_worker.js", import.meta.url).href;
/** The page's policy lets this address be a worker's, and no other. */
const allowed = globalThis.trustedTypes?.createPolicy("highlighter", { createScriptURL: () => ADDRESS });

let worker = null;
let last = Promise.resolve();

/** The tokens of a text, in a language that is vendored: a tree of texts and `{scope, children}`; null where that fails
 * or takes too long. */
export function highlighted(text, language) {
  last = last.then(() => tokens(text, language)).catch(() => null);
  return last;
}

function tokens(text, language) {
  worker ??= new Worker(allowed?.createScriptURL("") ?? ADDRESS, { type: "module" });
  return new Promise((resolve) => {
    const done = (tree) => {
      clearTimeout(timer);
      resolve(tree);
    };
    const giveUp = () => {
      worker.terminate();
      worker = null;
      done(null);
    };
    let timer = setTimeout(giveUp, LOADING);
    worker.onmessage = ({ data }) => {
      if (data !== "begun") return done(data);
      clearTimeout(timer);
      timer = setTimeout(giveUp, LIMIT);
    };
    worker.onerror = giveUp;
    worker.onmessageerror = giveUp;
    worker.postMessage({ text, language });
  });
}
