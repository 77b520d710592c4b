import { clear, h } from "./dom.js";

/** Show the view. */
export function mountAsk(root) {
  clear(root, h("h1", null, "Ask"));
}
