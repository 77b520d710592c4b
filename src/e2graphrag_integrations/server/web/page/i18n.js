// The texts of the page in the language of the reader, and numbers as this language writes them.

import { ENGLISH } from "./messages/en.js";
import { CHINESE } from "./messages/zh.js";

/** The language of the page, which `early.js` chose. */
export const LANGUAGE = document.documentElement.lang;

const MESSAGES = LANGUAGE.startsWith("zh") ? CHINESE : ENGLISH;
const PLURALS = new Intl.PluralRules(LANGUAGE);
const NUMBERS = new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 3 });
const DIGITS = [0, 1, 2, 3].map((digits) => new Intl.NumberFormat(LANGUAGE, { minimumFractionDigits: digits, maximumFractionDigits: digits }));

/** Return a number with separators and at most three decimals. */
export function formatNumber(value) {
  return NUMBERS.format(value);
}

/** Return a number with a fixed number of decimals, at most three. */
export function formatFixed(value, digits) {
  return DIGITS[digits].format(value);
}

/** Return a fraction as a percentage without decimals. */
export function formatPercent(value) {
  return new Intl.NumberFormat(LANGUAGE, { style: "percent" }).format(value);
}

/**
 * Return the text of a message. `{name}` in it becomes the value of this name; numbers are formatted. A message with
 * several forms is chosen by the value `count`.
 */
export function t(key, values) {
  return rich(key, values).join("");
}

/** Return the text of a message as children of an element: values may be elements, or lists of them. */
export function rich(key, values = {}) {
  const message = MESSAGES[key];
  if (message === undefined) throw new Error(`there is no message ${key}`);
  const text = typeof message === "string" ? message : (message[PLURALS.select(values.count)] ?? message.other);
  return text.split(/(\{\w+\})/).filter(Boolean).map((part) => (/^\{\w+\}$/.test(part) ? shownValue(values[part.slice(1, -1)]) : part));
}

function shownValue(value) {
  return typeof value === "number" ? formatNumber(value) : value;
}

/** Return whether there is a message. */
export function hasMessage(key) {
  return Object.hasOwn(MESSAGES, key);
}

/** Return the word for an identifier of the API, such as a status; an unknown one is shown as it is. */
export function wordFor(kind, identifier) {
  const key = `${kind}.${identifier.replaceAll(" ", "_")}`;
  return hasMessage(key) ? t(key) : identifier.replaceAll("_", " ");
}

/** Return a count with its noun, such as "1 chunk" or "2 chunks". */
export function countOf(count, noun) {
  return t(`count.${noun}`, { count });
}

/** Return texts or elements with commas, and *and* before the last one. */
export function listed(items) {
  return items.map((item, index) => [index ? t(index === items.length - 1 ? "list.and" : "list.comma") : "", item]);
}

/** Return texts with commas. */
export function commaList(texts) {
  return texts.join(t("list.comma"));
}

/** Return sentences as one text; empty ones are left out. */
export function sentences(texts) {
  return texts.filter(Boolean).join(t("list.sentence"));
}

/** Return a duration in seconds as text in milliseconds or seconds. */
export function formatSeconds(seconds) {
  if (seconds < 1) return t("unit.milliseconds", { value: formatFixed(1000 * seconds, seconds < 0.01 ? 1 : 0) });
  return t("unit.seconds", { value: formatFixed(seconds, 1) });
}

/** Return a duration of seconds, minutes or hours as text, in whole units. */
export function formatDuration(seconds) {
  const [unit, size] = seconds < 60 ? ["seconds", 1] : seconds < 10_800 ? ["minutes", 60] : ["hours", 3600];
  return t(`unit.${unit}`, { value: Math.max(1, Math.round(seconds / size)) });
}

/** Return a rate with three digits. */
export function formatRate(rate) {
  return new Intl.NumberFormat(LANGUAGE, { maximumSignificantDigits: 3 }).format(rate);
}

/** Return a size in bytes as text. */
export function formatBytes(bytes) {
  if (bytes < 1e6) return t("unit.kilobytes", { value: Math.max(0.1, Math.round(bytes / 100) / 10) });
  return t("unit.megabytes", { value: Math.round(bytes / 1e5) / 10 });
}

/** Return the name of a language, or its code if the browser does not know it. */
export function languageName(code) {
  try {
    return new Intl.DisplayNames(LANGUAGE, { type: "language", fallback: "code" }).of(code);
  } catch {
    return code; // not the form of a code
  }
}

/** Fill the elements of the document that name a message: their text, and their label. */
export function fillDocument() {
  for (const one of document.querySelectorAll("[data-t]")) one.textContent = t(one.dataset.t);
  for (const one of document.querySelectorAll("[data-t-label]")) one.setAttribute("aria-label", t(one.dataset.tLabel));
}
