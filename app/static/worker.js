/** Reads texts of models and files off the page's thread, since some take minutes; `core/in_worker.js` ends it with the
 * task that takes too long. */

import { coloursOf } from "./core/colours.js";
import { blocksOf } from "./core/markdown.js";

/** Each loads what it needs, and gives the work itself. */
const TASKS = {
  blocks: async (text) => () => blocksOf(text),
  colours: coloursOf,
};

addEventListener("message", async ({ data: [task, ...args] }) => {
  try {
    const work = await TASKS[task](...args);
    postMessage({ begins: true });
    postMessage({ result: work() });
  } catch {
    // A language that did not load, or a result too deep to be sent.
    postMessage({ result: null });
  }
});
