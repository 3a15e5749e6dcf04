/** Parses model and file texts off the main thread, since some take minutes; `core/in_worker.js` terminates it if a
 * task takes too long. */

import { colorsOf } from "./core/colors.js";
import { blocksOf } from "./core/markdown.js";

/** Each task loads what it needs and returns the function that does the work. */
const TASKS = {
  blocks: async (text) => () => blocksOf(text),
  colors: colorsOf,
};

addEventListener("message", async ({ data: [task, ...args] }) => {
  try {
    const work = await TASKS[task](...args);
    postMessage({ started: true });
    postMessage({ result: work() });
  } catch {
    // The language failed to load, or the result is nested too deeply to be sent.
    postMessage({ result: null });
  }
});
