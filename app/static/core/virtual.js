/** The library of the virtual list, with the one thing that it expects of a bundler. */

import "./process.js";

export {
  defaultRangeExtractor, elementScroll, observeElementOffset, observeElementRect, Virtualizer,
} from "../vendor/virtual/index.js";
