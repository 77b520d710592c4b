import { clear, h } from "./dom.js";

/** Show the summary trees. */
export function mountTree(root) {
  clear(root, h("h1", null, "Tree"));
}
