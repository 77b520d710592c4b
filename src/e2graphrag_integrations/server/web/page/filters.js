// The filter as a form: documents, and conditions on the keys of the metadata that the index has. The JSON below the form
// is what counts; the form writes it, and shows it if it can.

import { api, withQuery } from "./api.js";
import { choice, clear, debounced, errorBox, h, labeled } from "./dom.js";
import { commaList, countOf, formatNumber, t } from "./i18n.js";

const DOCUMENT_KEY = "document_id";
const LISTED_VALUES = 8;
const DAY = 86_400_000; // milliseconds
const LAST_DAY = "9999-12-31"; // often means that there is no end
const RANGE_OPERATORS = ["$gte", "$lte", "$lt"];

/** The form of a filter in a text field. `id(name)` returns the id of a control. */
export class FilterForm {
  constructor(id, where) {
    this.id = id;
    this.where = where;
    this.rows = new Map();
    this.keys = new Map();
    this.hits = new Map();
    this.written = null; // the filter that the rows show; null if they are not up to date
    this.isLoaded = false;
    this.isTyped = false; // whether a condition was typed that the text field does not have yet
    this.made = 0;
    this.add = choice(id("condition"), [], { dir: "auto" });
    this.list = h("div", { class: "conditions" });
    this.note = h("p", { class: "hint", hidden: true }, t("filter.only_json"));
    this.problem = h("div");
    this.adding = labeled(t("filter.add"), this.add, t("filter.add.hint"));
    this.element = h("div", { class: "filter-form", role: "group", "aria-label": t("field.filter") }, this.list, this.adding, this.note, this.problem);
    this.add.addEventListener("change", () => {
      this.addRow(this.add.value, {}).focus();
      this.showKeys();
    });
    const follow = debounced(() => this.read(), 300);
    where.addEventListener("input", () => {
      if (where.value.trim() !== this.written) follow();
    });
  }

  /** Read the keys of the index, and then the filter. */
  async load() {
    try {
      const { keys } = await api.get(withQuery("metadata", { limit: LISTED_VALUES }));
      this.keys = new Map(keys.map((key) => [key.name, key]));
      clear(this.problem);
    } catch (error) {
      clear(this.problem, errorBox(error));
      return;
    }
    this.isLoaded = true;
    this.written = null;
    this.read();
  }

  /** Show the filter of the text field, once the keys are known. */
  read() {
    if (!this.isLoaded) return;
    const text = this.where.value.trim();
    const conditions = conditionsOf(text, this.keys);
    this.note.hidden = conditions !== null;
    this.adding.hidden = this.list.hidden = conditions === null;
    if (text === this.written || conditions === null) return;
    this.rows.clear();
    clear(this.list);
    for (const [key, condition] of conditions) this.addRow(key, condition);
    this.written = text;
    this.showKeys();
  }

  /** Write the conditions into the text field, as if they had been typed. */
  write() {
    this.isTyped = false;
    const filled = [...this.rows].map(([key, row]) => [key, row.condition()]).filter(([, condition]) => condition !== undefined);
    this.written = filled.length ? JSON.stringify(Object.fromEntries(filled)) : "";
    this.where.value = this.written;
    this.where.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /** Write what was typed just now: Enter may follow at once. */
  flush() {
    if (this.isTyped) this.write();
  }

  /** Count the hits of the last answer by document. */
  showHits(nodes) {
    this.hits = new Map();
    for (const node of nodes) this.hits.set(node.document_id, (this.hits.get(node.document_id) ?? 0) + 1);
    this.rows.get(DOCUMENT_KEY)?.refresh();
  }

  addRow(key, condition) {
    const view = this.keys.get(key);
    const changed = () => this.write();
    const typed = debounced(() => this.flush(), 300);
    const later = () => {
      this.isTyped = true;
      typed();
    };
    const number = ++this.made;
    const options = { key, id: (name) => this.id(`${name}-${number}`), view, condition, changed, later };
    let row;
    if (key === DOCUMENT_KEY) row = new ValueRow({ ...options, title: t("view.documents"), find: (search) => this.findDocuments(search) });
    else if (["number", "date"].includes(view?.kind ?? condition.kind)) row = new RangeRow({ ...options, title: key });
    else row = new ValueRow({ ...options, title: key, find: (search) => this.findValues(key, search) });
    const remove = () => {
      this.rows.delete(key);
      row.element.remove();
      this.write();
      this.showKeys();
      this.add.focus();
    };
    row.heading.append(h("button", { type: "button", class: "quiet small", "aria-label": t("filter.remove", { name: row.title }), onclick: remove }, "×"));
    this.rows.set(key, row);
    this.list.append(row.element);
    return row;
  }

  /** Offer the keys that have no row yet. */
  showKeys() {
    const free = [...this.keys.values()].filter((key) => !this.rows.has(key.name));
    const titles = free.map((key) => [key.name, t("filter.key", { name: key.name, documents: countOf(key.documents, "document") })]);
    const documents = this.rows.has(DOCUMENT_KEY) ? [] : [[DOCUMENT_KEY, t("view.documents")]];
    clear(this.add, h("option", { value: "", disabled: true }, t("filter.choose")), [...documents, ...titles].map(([value, text]) => h("option", { value }, text)));
    this.add.value = "";
    this.add.disabled = this.add.options.length < 2;
  }

  async findValues(key, search) {
    const view = search ? await api.get(withQuery("metadata/values", { key, search, limit: LISTED_VALUES })) : this.keys.get(key);
    if (!view) return { options: [], hasMore: false };
    const options = view.values.map((one) => ({ value: one.value, text: String(one.value), count: formatNumber(one.documents), said: countOf(one.documents, "document") }));
    return { options, hasMore: view.distinct > options.length };
  }

  async findDocuments(search) {
    const page = await api.get(withQuery("documents", { limit: LISTED_VALUES, status: "done", order: "-chunks", search }));
    const options = page.items.map((one) => {
      const hits = this.hits.get(one.id);
      const said = commaList([countOf(one.chunks, "chunk"), hits ? countOf(hits, "hit") : ""].filter(Boolean));
      return { value: one.id, text: one.title || one.id, count: said, said };
    });
    return { options, hasMore: page.total > options.length };
  }
}

/** A condition with values to choose from, and for texts a part of them. */
class ValueRow {
  constructor({ id, key, view, condition, changed, later, title, find }) {
    this.title = title;
    this.find = find;
    this.changed = changed;
    this.chosen = new Map((condition.values ?? []).map((value) => [JSON.stringify(value), { value, text: String(value) }]));
    this.search = h("input", { type: "search", id: id("search"), autocomplete: "off", "aria-label": t("filter.search_in", { name: title }), placeholder: t("filter.search"), hidden: true });
    this.list = h("ul", { class: "choices" });
    this.heading = h("div", { class: "row condition-head" }, h("strong", { class: "grow", dir: "auto" }, title));
    this.all = view?.is_list ? h("input", { type: "checkbox", onchange: changed }) : null;
    if (this.all) this.all.checked = condition.all === true;
    this.part = key !== DOCUMENT_KEY && (view?.kind ?? "text") === "text" ? h("input", { id: id("part"), type: "text", value: condition.contains ?? "", autocomplete: "off" }) : null;
    this.part?.addEventListener("input", later);
    this.element = h(
      "div",
      { class: "condition", role: "group", "aria-label": title },
      this.heading,
      this.search,
      this.list,
      this.all ? h("label", { class: "check" }, this.all, t("filter.all")) : null,
      this.part ? labeled(t("filter.contains"), this.part) : null,
    );
    this.search.addEventListener("input", debounced(() => this.refresh(), 250));
    this.isListed = this.refresh();
  }

  async refresh() {
    const text = this.search.value.trim();
    let found;
    try {
      found = await this.find(text);
    } catch {
      return; // the values that are listed stay
    }
    if (text !== this.search.value.trim()) return;
    this.search.hidden = !text && !found.hasMore;
    for (const one of found.options) {
      const key = JSON.stringify(one.value);
      if (this.chosen.has(key)) this.chosen.set(key, one);
    }
    const rest = found.options.filter((one) => !this.chosen.has(JSON.stringify(one.value)));
    const listed = [...this.chosen.values(), ...rest];
    clear(this.list, listed.length ? listed.map((one) => h("li", null, this.option(one))) : h("li", { class: "hint" }, t("filter.nothing")));
  }

  option(one) {
    const key = JSON.stringify(one.value);
    const box = h("input", { type: "checkbox" });
    box.checked = this.chosen.has(key);
    box.addEventListener("change", () => {
      if (box.checked) this.chosen.set(key, one);
      else this.chosen.delete(key);
      this.changed();
    });
    return h("label", { class: "check" }, box, h("span", { class: "choice-text", dir: "auto", title: one.text }, one.text), one.count ? h("span", { class: "hint", title: one.said }, one.count) : null);
  }

  async focus() {
    await this.isListed;
    (this.search.hidden ? this.list.querySelector("input") : this.search)?.focus();
  }

  condition() {
    const values = [...this.chosen.values()].map((one) => one.value);
    const contains = this.part?.value.trim() ?? "";
    if (!contains && values.length === 1) return values[0];
    const operators = { ...(values.length ? { [this.all?.checked ? "$all" : "$in"]: values } : {}), ...(contains ? { $icontains: contains } : {}) };
    return Object.keys(operators).length ? operators : undefined;
  }
}

/** A condition with a range of numbers or of days. */
class RangeRow {
  constructor({ id, view, condition, later, title }) {
    this.title = title;
    this.isDate = (view?.kind ?? condition.kind) === "date";
    this.heading = h("div", { class: "row condition-head" }, h("strong", { class: "grow", dir: "auto" }, title));
    const field = (name, value, bound) => h("input", { id: id(name), type: this.isDate ? "date" : "number", step: this.isDate ? null : "any", max: this.isDate ? LAST_DAY : null, value: value ?? "", placeholder: bound });
    this.from = field("from", condition.from, view?.least);
    this.to = field("to", condition.to, view?.greatest);
    const bounds = view ? t("filter.bounds", { least: shownBound(view.least), greatest: shownBound(view.greatest) }) : "";
    this.element = h("div", { class: "condition", role: "group", "aria-label": title }, this.heading, h("div", { class: "range" }, labeled(t("filter.from"), this.from), labeled(t("filter.to"), this.to)), bounds ? h("p", { class: "hint" }, bounds) : null);
    for (const one of [this.from, this.to]) one.addEventListener("input", later);
  }

  refresh() {}

  focus() {
    this.from.focus();
  }

  condition() {
    const [from, to] = [this.from.value, this.to.value];
    const operators = {};
    if (from) operators.$gte = this.isDate ? from : Number(from);
    if (to && !this.isDate) operators.$lte = Number(to);
    else if (to && to < LAST_DAY) operators.$lt = dayAfter(to, 1); // a time on the last day belongs to it
    return Object.keys(operators).length ? operators : undefined;
  }
}

function shownBound(value) {
  return String(value).slice(0, typeof value === "number" ? 24 : 10); // a year has no separator
}

/** Return the day some days after another one, as ISO texts. */
function dayAfter(day, days) {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * DAY).toISOString().slice(0, 10);
}

/** Return the conditions of a filter by key, or null if the form cannot show it. */
function conditionsOf(text, keys) {
  if (!text) return new Map();
  let where;
  try {
    where = JSON.parse(text);
  } catch {
    return null;
  }
  if (where === null || typeof where !== "object" || Array.isArray(where)) return null;
  const conditions = new Map();
  for (const [key, given] of Object.entries(where)) {
    const condition = key.startsWith("$") ? null : conditionOf(given, keys.get(key)?.kind);
    if (!condition) return null;
    conditions.set(key, condition);
  }
  return conditions;
}

function conditionOf(given, kind) {
  const isScalar = (value) => ["string", "number", "boolean"].includes(typeof value);
  if (isScalar(given)) {
    if (kind === "number" || kind === "date") return rangeOf(kind === "date" ? { $gte: given, $lt: dayOrEmpty(given, 1) } : { $gte: given, $lte: given }, kind);
    return { values: [given] };
  }
  if (given === null || typeof given !== "object" || Array.isArray(given)) return null;
  const names = Object.keys(given);
  if (names.length && names.every((name) => RANGE_OPERATORS.includes(name))) return rangeOf(given, kind);
  const values = given.$in ?? given.$all ?? [];
  const isKnown = names.every((name) => ["$in", "$all", "$icontains"].includes(name)) && !(given.$in && given.$all);
  const hasTexts = given.$icontains === undefined || typeof given.$icontains === "string";
  if (!names.length || !isKnown || !hasTexts || !Array.isArray(values) || !values.every(isScalar) || kind === "number" || kind === "date") return null;
  return { values, all: Boolean(given.$all), contains: given.$icontains };
}

/** Return the range of numbers or days; null if it is another one, or the key has other values. */
function rangeOf({ $gte: from, $lte: to, $lt: below }, kind) {
  const bounds = [from, to, below].filter((one) => one !== undefined);
  if (bounds.every((one) => typeof one === "number") && below === undefined) return kind === undefined || kind === "number" ? { kind: "number", from, to } : null;
  const areDays = bounds.every((one) => typeof one === "string" && dayOrEmpty(one, 0) === one);
  if (!areDays || to !== undefined || (kind !== undefined && kind !== "date")) return null;
  return { kind: "date", from, to: below === undefined ? undefined : dayAfter(below, -1) };
}

function dayOrEmpty(text, days) {
  return /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(`${text}T00:00:00Z`)) ? dayAfter(text, days) : "";
}
