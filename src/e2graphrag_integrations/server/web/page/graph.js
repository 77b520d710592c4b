import { clear, h } from "./dom.js";

/** Show the entity graph. */
export function mountGraph(root) {
  clear(root, h("h1", null, "Graph"));
}
