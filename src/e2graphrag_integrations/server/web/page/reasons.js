// Why a hit was found, and how the search went, in the language of the page. The server sends a code and values, and
// the sentence in English for a code that only a strategy of the user knows.

import { commaList, formatNumber, hasMessage, t, wordFor } from "./i18n.js";

const FIGURES_OF = { cosine: "cosine", filled: "cosine", occurrence: "occurrence", coverage: "coverage", reranked: "score", boosted: "factor" };

/** Return the name of a ranked list. */
export function listName(name) {
  const layer = /^layer[ _](\d+)$/.exec(name);
  return layer ? t("because.list_layer", { layer: layer[1] }) : wordFor("found_by", name);
}

/** Return whether the page has its own sentence for a reason. */
export function isKnownReason({ code }) {
  return hasMessage(`because.${code}`);
}

/** Return a reason as a sentence; `nameOf(name)` returns a name of the index as the texts write it. */
export function sentenceOf(reason, nameOf = (name) => name) {
  if (!isKnownReason(reason)) return reason.text;
  const values = Object.entries(reason.values).map(([name, value]) => [name, shownPart(reason.code, name, value, nameOf)]);
  return t(`because.${reason.code}`, Object.fromEntries(values));
}

function shownPart(code, name, value, nameOf) {
  if (name === "list") return listName(value);
  if (name === "mode") return wordFor("mode", value);
  if (name === "rest") return typeof value === "string" ? value : sentenceOf(value, nameOf);
  if (Array.isArray(value)) return commaList(value.map((one) => quotedName(name === "names" ? nameOf(one) : one)));
  if (name === "name") return /names$/.test(code) ? quotedName(nameOf(value)) : nameOf(value);
  return name === "newest" ? quotedName(value) : value;
}

/** Return a name in the quotation marks of the language. */
export function quotedName(name) {
  return t("because.quoted", { name });
}

/** Return the numbers behind the reasons of a hit, as texts; ranks have a list of their own. */
export function figuresOf(reasons) {
  const known = reasons.filter(({ code }) => Object.hasOwn(FIGURES_OF, code));
  const figures = known.map(({ code, values }) => [FIGURES_OF[code], values[FIGURES_OF[code]]]);
  return [...new Map(figures)].map(([name, value]) => t("trace.figure", { name: wordFor("figure", name), value: formatNumber(value) }));
}
