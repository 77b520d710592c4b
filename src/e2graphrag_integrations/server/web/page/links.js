// Links to other views.

import { h } from "./dom.js";

/** Return `#/graph?entity=NAME` and the like; empty parameters are left out. */
export function viewLink(view, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined);
  return `#/${view}${given.length ? "?" : ""}${new URLSearchParams(given)}`;
}

/** Return a link to an entity in the graph. */
export function entityLink(name, text = name) {
  return h("a", { class: "entity", href: viewLink("graph", { entity: name }), dir: "auto" }, text);
}
