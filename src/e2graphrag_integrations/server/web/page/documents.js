import { clear, h } from "./dom.js";

/** Show the view. */
export function mountDocuments(root) {
  clear(root, h("h1", null, "Documents"));
}
