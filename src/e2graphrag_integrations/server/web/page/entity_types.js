// The types of entities: their words and colors.

import { h } from "./dom.js";
import { t, wordFor } from "./i18n.js";

/** The types that every index has; the rules of a user may have more. */
export const NAME_TYPES = ["person", "place", "organization", "work", "product", "other"];

const NOUN = "noun";
const OWN = "own"; // the color of all types of the user

/** Return the word for a type; a type of the user is shown as it is. */
export function typeWord(type) {
  return [...NAME_TYPES, NOUN].includes(type) ? wordFor("entity_type", type) : type;
}

/** Return the name of the color of a type, in the drawing and in the style sheet. */
export function typeColor(type) {
  return [...NAME_TYPES, NOUN].includes(type) ? type : OWN;
}

/** Return the styles of the entities in the drawing by type; `color` returns a color of the theme. */
export function typeStyles(color) {
  return [...NAME_TYPES, OWN].map((type) => ({ selector: `node.type-${type}`, style: { "background-color": color(`--type-${type}`) } }));
}

/** Return the items of a legend for the types of entities. */
export function typeLegend(nodes) {
  const colors = [...NAME_TYPES, NOUN, OWN].filter((color) => nodes.some((node) => typeColor(node.type) === color));
  const text = (color) => (color === OWN ? t("legend.own_types") : wordFor("entity_type", color));
  return colors.map((color) => h("li", null, h("span", { class: `graph-mark is-${color}` }), text(color)));
}
