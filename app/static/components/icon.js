/** The page's icons: outlines of 16 × 16 px in the color of the text. */

import { h } from "../core/ui.js";

const PATHS = {
  attach: "M13 7.5 8 12.4a3 3 0 0 1-4.3-4.3l5.2-5.2a2 2 0 0 1 2.9 2.9L6.7 10.9a1 1 0 0 1-1.4-1.4L10 4.8",
  check: "m3 8.5 3.5 3.5L13 4.5",
  copy: "M6 6V3.5A1.5 1.5 0 0 1 7.5 2h5A1.5 1.5 0 0 1 14 3.5v5a1.5 1.5 0 0 1-1.5 1.5H10M3.5 6h5A1.5 1.5 0 0 1 10 7.5v5A1.5 1.5 0 0 1 8.5 14h-5A1.5 1.5 0 0 1 2 12.5v-5A1.5 1.5 0 0 1 3.5 6Z",
  down: "m4 6 4 4 4-4",
  edit: "m9.5 4 2.5 2.5M3 13l.7-3.2L11 2.5a1 1 0 0 1 1.4 0l1.1 1.1a1 1 0 0 1 0 1.4L6.2 12.3Z",
  file: "M4 1.8h5l3.5 3.5v8.9H4ZM9 2v3.5h3.3",
  folder: "M1.8 12.8V3.7h4.4l1.6 1.8h6.4v7.3Z",
  mark: "M2 3h12M2 6.4h7M2 9.8h12M2 13.2h8",
  memory: "M4 2h8v12l-4-3-4 3Z",
  plan: "M6.5 4H14M6.5 8H14M6.5 12H14M2 4h1.5M2 8h1.5M2 12h1.5",
  right: "m6 4 4 4-4 4",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.6-1.4L14 14",
  terminal: "m3 4.5 3.5 3.5L3 11.5M8.5 12H13",
  tool: "M6 2v3.5M10 2v3.5M3.5 5.5h9V8a4.5 4.5 0 0 1-9 0ZM8 12.5V14",
};

/** An icon by its name; it is hidden from screen readers, so its meaning must also be in a text or a label. */
export function Icon({ name }) {
  const path = h("path", { d: PATHS[name] });
  return h("svg", { class: "icon", viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, path);
}
