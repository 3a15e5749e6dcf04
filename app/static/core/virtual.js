/** The virtual list library, with the `process.env` that it expects from a bundler. */

import "./process.js";

export {
  defaultRangeExtractor, elementScroll, observeElementOffset, observeElementRect, Virtualizer,
} from "../vendor/virtual/index.js";
