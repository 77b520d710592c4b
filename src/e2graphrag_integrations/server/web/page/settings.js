// The form of one setting of the retrieval test.

import { choice, debounced, h, labeled } from "./dom.js";
import { FilterForm } from "./filters.js";
import { commaList, t, wordFor } from "./i18n.js";
import { presetChoice } from "./presets.js";

/** The id of the form of the question, to which the fields belong. */
export const FORM_ID = "ask-form";

const WEIGHTS = ["dense_weight", "bm25_weight", "entity_weight", "title_link_weight"];
const LONG_SETTINGS = new Set(["where", "boosts", "history", "paths"]); // only their names are told

/** Return the fields of one setting. An empty field means the default. */
export function settingFields(name, info) {
  const id = (key) => `${name.toLowerCase()}-${key}`;
  const defaults = info.defaults ?? {};
  const number = (key, properties) => {
    const value = defaults[key] ?? defaults.parameters?.hybrid?.[key] ?? "";
    return h("input", { id: id(key), type: "number", placeholder: value, ...properties });
  };
  const text = (key, rows = 2) => h("textarea", { id: id(key), rows, placeholder: t(`field.${key}.example`), spellcheck: "false" });
  const fields = {
    mode: choice(id("mode"), info.modes.map((mode) => [mode === (defaults.mode ?? "auto") ? "" : mode, wordFor("mode", mode)])),
    strategy: choice(id("strategy"), [["", t("ask.default")], ...info.strategies.map((one) => [one, wordFor("strategy", one)])]),
    k: number("k", { min: 1, max: info.limits.k, step: 1 }),
    token_budget: number("token_budget", { min: 1, max: info.limits.token_budget, step: 1, placeholder: t("ask.no_limit") }),
    ...Object.fromEntries(WEIGHTS.map((key) => [key, number(key, { min: 0, max: 1000, step: "any" })])),
    where: text("where"),
    boosts: text("boosts"),
    history: text("history", 3),
    paths: h("input", { id: id("paths"), type: "checkbox", "aria-describedby": id("paths-hint") }),
  };
  for (const field of Object.values(fields)) field.setAttribute("form", FORM_ID); // Enter asks, outside of the form, too
  const field = (key) => labeled(t(`field.${key}`), fields[key], t(`field.${key}.hint`));
  const weights = h("div", { class: "fields" }, WEIGHTS.map(field));
  const legend = h("legend", null, t("ask.setting_of", { name }));
  const element = h(
    "fieldset",
    { "data-fields": name },
    legend,
    h(
      "div",
      { class: "fields" },
      ["k", "mode", "strategy", "token_budget"].map(field),
    ),
    h("details", null, h("summary", null, t("field.weights")), weights),
    h("details", null, h("summary", null, t("field.filter")), h("div", { class: "wide" }, field("where"))),
    h(
      "details",
      null,
      h("summary", null, t("field.more")),
      h(
        "div",
        { class: "fields" },
        ["boosts", "history"].map((key) => h("div", { class: "wide" }, field(key))),
        h(
          "div",
          { class: "wide" },
          h("label", { class: "check" }, fields.paths, t("field.paths")),
          h("p", { class: "hint", id: id("paths-hint") }, t("field.paths.hint")),
        ),
      ),
    ),
  );

  const isHybrid = () => ["", "hybrid"].includes(fields.strategy.value);
  const showWeights = () => {
    for (const key of WEIGHTS) fields[key].disabled = !isHybrid();
  };
  fields.strategy.addEventListener("change", showWeights);

  /** Return the values of the form that are not empty, as texts. */
  function values() {
    const entries = Object.entries(fields).map(([key, field]) => [key, field.type === "checkbox" ? (field.checked ? "1" : "") : field.value.trim()]);
    return Object.fromEntries(entries.filter(([key, value]) => value !== "" && !fields[key].disabled));
  }

  function write(given) {
    for (const [key, field] of Object.entries(fields)) {
      if (field.type === "checkbox") field.checked = given[key] === "1";
      else field.value = given[key] ?? "";
      if (field.tagName === "SELECT" && field.selectedIndex < 0) field.selectedIndex = 0; // an unknown name in a link
      field.removeAttribute("aria-invalid");
    }
    showWeights();
    for (const box of element.querySelectorAll("details")) box.open ||= [...box.querySelectorAll("input, textarea")].some((one) => (one.type === "checkbox" ? one.checked : one.value));
  }

  function invalid(key, message) {
    fields[key].setAttribute("aria-invalid", "true");
    const box = fields[key].closest("details");
    if (box) box.open = true;
    const error = new Error(t("ask.setting_says", { name, text: message }));
    return Object.assign(error, { field: fields[key], isSetting: true });
  }

  function read({ isBatch = false } = {}) {
    const chosen = {};
    filter.flush();
    for (const field of Object.values(fields)) field.removeAttribute("aria-invalid");
    for (const [key, value] of Object.entries(values())) {
      if (key === "where" || key === "boosts") chosen[key] = jsonObject(key, value);
      else if (key === "history") chosen[key] = turnsOf(value);
      else if (key === "paths") chosen[key] = true;
      else if (fields[key].type === "number") chosen[key] = numberOf(key, value);
      else chosen[key] = value;
    }
    for (const [key, field] of Object.entries(fields)) {
      if (field.type === "number" && field.validity.badInput) throw invalid(key, t("field.no_number"));
    }
    if (isBatch) {
      delete chosen.history;
      delete chosen.paths;
    }
    return chosen;
  }

  function numberOf(key, value) {
    const given = Number(value);
    const isWhole = fields[key].step === "1";
    if (!Number.isFinite(given) || (isWhole && !Number.isInteger(given))) throw invalid(key, t(isWhole ? "field.no_whole_number" : "field.no_number"));
    const { min, max } = fields[key];
    if (given < Number(min) || given > Number(max || Infinity)) throw invalid(key, t("field.out_of_range", { low: Number(min), high: Number(max) }));
    return given;
  }

  function jsonObject(key, value) {
    let given;
    try {
      given = JSON.parse(value);
    } catch (error) {
      throw invalid(key, t(`field.no_json.${key}`, { message: error.message }));
    }
    if (given === null || typeof given !== "object" || Array.isArray(given)) throw invalid(key, t(`field.no_object.${key}`, { example: fields[key].placeholder }));
    return given;
  }

  const check = debounced((key) => {
    try {
      if (fields[key].value.trim()) jsonObject(key, fields[key].value);
      fields[key].removeAttribute("aria-invalid");
    } catch {
      // `jsonObject` has marked the field; the message follows when the question is asked.
    }
  }, 400);
  for (const key of ["where", "boosts"]) fields[key].addEventListener("input", () => check(key));

  /** Return the settings that are not the default, in words. */
  function describe() {
    return commaList(Object.entries(values()).map(([key, value]) => describeValue(key, value)));
  }

  const preset = presetChoice(id("preset"), { values, write: writeAll });
  const filter = new FilterForm(id, fields.where);
  legend.after(preset.element);
  fields.where.closest(".wide").before(h("div", { class: "wide" }, filter.element));
  element.addEventListener("input", preset.show);
  filter.element.closest("details").addEventListener("toggle", (event) => event.target.open && filter.load());

  function writeAll(given) {
    write(given);
    preset.show();
    filter.read();
  }

  preset.show();
  return { element, legend, values, write: writeAll, read, describe, preset: preset.chosen, showHits: (nodes) => filter.showHits(nodes) };
}

/** Return a value of a setting in words. */
function describeValue(key, value) {
  const name = t(`setting.${key}`);
  if (LONG_SETTINGS.has(key)) return name;
  return t("setting.is", { name, value: ["mode", "strategy"].includes(key) ? wordFor(key, value) : value });
}

/** Return the turns of a conversation, one per line. */
function turnsOf(text) {
  return text
    .split("\n")
    .filter((line) => line.trim())
    .map((line) => {
      const [, role, content] = /^\s*(?:(user|assistant)\s*:)?\s*(.*)$/is.exec(line);
      return { role: (role ?? "user").toLowerCase(), content };
    });
}
