// The retrieval test: a question, one or two settings, and their answers side by side.

import { renderAnswer, showFloor } from "./answer.js";
import { api } from "./api.js";
import { announce, busy, choice, clear, debounced, errorBox, h, labeled } from "./dom.js";
import { FilterForm } from "./filters.js";
import { SelectedHit } from "./hits.js";
import { commaList, countOf, formatFixed, t, wordFor } from "./i18n.js";
import { presetChoice } from "./presets.js";
import { mountQuestions } from "./questions.js";
import { openReader } from "./reader.js";
import { renderWelcome } from "./welcome.js";
import { WrittenAnswers } from "./written.js";

const WEIGHTS = ["dense_weight", "bm25_weight", "entity_weight", "title_link_weight"];
const LONG_SETTINGS = new Set(["where", "boosts", "history", "paths"]); // only their names are told
const SIDE_WIDTH = "(min-width: 1100px)"; // as in the style sheet: the settings stand beside the answers
const FORM_ID = "ask-form";
const MAX_ADDRESS = 8_000; // characters; a longer state would not fit into the address

/** Show the retrieval test. */
export function mountAsk(root, _source, info, state) {
  const question = h("textarea", { id: "question", rows: 1, required: true, maxlength: 32_000, dir: "auto", "aria-describedby": "question-hint" });
  const compare = h("input", { id: "compare", type: "checkbox", role: "switch" });
  const settings = { A: settingFields("A", info), B: settingFields("B", info) };
  const settingsSummary = h("summary", null, t("ask.settings"));
  const reset = h("button", { type: "button", id: "reset", class: "quiet small" }, t("ask.reset"));
  const settingsBox = h(
    "details",
    { id: "settings", class: "settings-side" },
    settingsSummary,
    h("div", { class: "row" }, reset, h("span", { class: "hint" }, t("ask.empty_is_default"))),
    h("div", { class: "settings" }, settings.A.element, settings.B.element),
  );
  const gold = goldFields();
  const askButton = h("button", { type: "submit", id: "ask" }, t("ask.ask"));
  const problem = h("div");
  const questionSet = h("details", { id: "question-set" });
  const again = h("button", { type: "button", class: "quiet small", id: "ask-again" }, t("ask.again"));
  const stale = h("p", { class: "stale row", id: "stale", role: "status", hidden: true }, h("span", null, t("ask.changed")), again);
  const answers = h("div", { class: "answers", id: "answers" });
  const given = {};
  const sent = {}; // what was asked, by the name of the setting
  const forms = {}; // how the settings were then
  const written = new WrittenAnswers(info.answers);
  const opened = new Set(); // the nodes whose reasons are shown, which stay so when the question is asked again
  let asked = "";
  const selected = new SelectedHit(answers, () => keepQuietly());
  let floor = 0;
  let isReading = false; // whether the document of the selected hit is shown
  let control = null;
  let address = "";
  let isFresh = false; // whether the next answers are those of an address
  let isDraft = true; // whether the newest entry of the history has no answer yet, so that it can be replaced

  const form = h(
    "form",
    { id: FORM_ID, class: "ask-form card stack", novalidate: true },
    h(
      "div",
      { class: "question-row" },
      h(
        "div",
        { class: "grow field" },
        h(
          "div",
          { class: "label-row" },
          h("label", { for: "question" }, t("ask.question")),
          h("p", { class: "hint", id: "question-hint" }, t("ask.hint")),
        ),
        question,
      ),
      askButton,
    ),
    problem,
    stale,
    h("div", { class: "disclosures" }, h("label", { class: "check" }, compare, t("ask.compare")), gold.element, questionSet),
  );
  clear(root, h("h1", { class: "visually-hidden" }, t("view.ask")), h("div", { class: "ask-layout" }, form, settingsBox, answers));

  const questions = mountQuestions(questionSet, {
    info,
    current: () => ({ question: question.value.trim(), ...gold.read() }),
    settings: () => readSettings({ isBatch: true }),
    load: (one) => {
      question.value = one.question;
      gold.write(one);
      ask();
      question.focus();
    },
  });

  function names() {
    return compare.checked ? ["A", "B"] : ["A"];
  }

  /** Return the settings by name; throws at the first invalid one, and moves the focus to its field. */
  function readSettings(options) {
    return Object.fromEntries(names().map((name) => [name, settings[name].read(options)]));
  }

  /** Say that the hits below are not those of the settings beside them. */
  function showStale() {
    const isAnswered = names().every((name) => sent[name]) && answers.querySelector(".hit, .empty");
    stale.hidden = !isAnswered || names().every((name) => forms[name] === formOf(name));
  }

  function formOf(name) {
    return JSON.stringify(settings[name].values());
  }

  function isCopy() {
    return JSON.stringify(settings.A.values()) === JSON.stringify(settings.B.values());
  }

  function showLayout() {
    settings.B.element.hidden = !compare.checked;
    settings.A.legend.textContent = compare.checked ? t("ask.setting_of", { name: "A" }) : t("ask.setting");
    answers.classList.toggle("compare", compare.checked);
    const described = settings.A.describe();
    settingsSummary.textContent = compare.checked || !described ? t("ask.settings") : t("ask.settings_with", { described });
  }

  /** Return what the form contains as parameters of the address. */
  function formState() {
    const values = { q: question.value.trim() };
    if (compare.checked) values.compare = "1";
    for (const name of names()) {
      for (const [key, value] of Object.entries(settings[name].values())) values[`${name.toLowerCase()}.${key}`] = value;
    }
    for (const [key, value] of Object.entries(gold.values())) values[key] = value;
    if (floor) values.floor = String(floor);
    if (selected.key) values.hit = selected.key;
    if (isReading) values.read = "1";
    return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
  }

  function restore(values) {
    question.value = values.q ?? "";
    compare.checked = values.compare === "1";
    for (const name of ["A", "B"]) {
      const prefix = `${name.toLowerCase()}.`;
      const own = Object.entries(values).filter(([key]) => key.startsWith(prefix));
      settings[name].write(Object.fromEntries(own.map(([key, value]) => [key.slice(prefix.length), value])));
    }
    gold.restore(values);
    floor = floorOf(values.floor);
    selected.key = values.hit ?? "";
    isReading = values.read === "1";
    startQuestion(question.value.trim());
    settingsBox.open ||= compare.checked && !question.value; // an answer comes first on small screens
    showLayout();
  }

  /** Keep the form in the address. The first change after an answer is a new entry: Back returns to the answer. */
  function keepState() {
    const text = new URLSearchParams(formState()).toString();
    if (text === address || text.length > MAX_ADDRESS) return;
    address = text;
    const method = isDraft ? "replaceState" : "pushState";
    isDraft = true;
    history[method](null, "", text ? `#/ask?${text}` : "#/ask");
  }

  /** Gray the hits below a relevance. */
  function setFloor(value) {
    floor = value;
    showFloor(answers, floor);
    keepQuietly();
  }

  /** Show the document of a hit, which the address names until the document is closed. */
  function read(node) {
    isReading = true;
    keepQuietly();
    openReader({ id: node.document_id, title: node.title, start: node.start, end: node.end, best: node.level ? null : node.best }, () => {
      isReading = false;
      keepQuietly();
    });
  }

  /** Forget what belongs to the hits of another question. */
  function startQuestion(text) {
    if (text !== asked) opened.clear();
    asked = text;
  }

  /** Keep in the address what Back need not undo. */
  const keepQuietly = debounced(() => {
    if (root.hidden) return;
    const wasDraft = isDraft;
    isDraft = true;
    keepState();
    isDraft = wasDraft;
  }, 150);

  /** Open the settings where they have a column of their own, and else if one is set. */
  function fitSettings() {
    settingsBox.open = side.matches || compare.checked || Boolean(settings.A.describe());
  }

  async function ask() {
    const text = question.value.trim();
    clear(problem);
    if (!text) {
      clear(problem, errorBox(t("ask.write_first")));
      question.focus();
      return;
    }
    let chosen;
    let goldAnswers;
    try {
      chosen = readSettings();
      goldAnswers = gold.request();
    } catch (error) {
      clear(problem, errorBox(error));
      settingsBox.open ||= error.isSetting === true;
      error.field?.focus();
      return;
    }
    if (text !== asked) selected.key = "";
    startQuestion(text);
    keepState();
    isDraft = false;
    const chosenForms = Object.fromEntries(names().map((name) => [name, formOf(name)]));
    control?.abort();
    control = new AbortController();
    const { signal } = control;
    answers.setAttribute("aria-busy", "true");
    announce(t("ask.asking"));
    await busy(askButton, async () => {
      const settled = await Promise.allSettled(
        Object.values(chosen).map((one) => api.post("retrieve", { question: text, settings: one, gold: goldAnswers }, signal)),
      );
      if (signal.aborted) return;
      answers.removeAttribute("aria-busy");
      Object.keys(chosen).forEach((name, index) => {
        given[name] = settled[index];
        sent[name] = { question: text, settings: chosen[name] };
        forms[name] = chosenForms[name];
      });
      if (!compare.checked) delete given.B;
      if (settled.some((one) => one.value?.nodes.length === 0)) await state.refresh();
      if (!signal.aborted) showAnswers();
    });
  }

  function showAnswers() {
    const values = Object.fromEntries(Object.entries(given).map(([name, one]) => [name, one.value]));
    clear(
      answers,
      Object.entries(given).map(([name, one]) => {
        const title = t("ask.setting_of", { name });
        if (one.status === "rejected") {
          return h("section", { "aria-label": title }, given.B ? h("h2", null, title) : null, errorBox(one.reason));
        }
        const otherLabel = name === "A" ? "B" : "A";
        const options = { isMarked: gold.has, onGold: toggleGold, other: values[otherLabel], otherLabel, label: given.B ? name : null, reasons: state.reasons(), level: given.B ? 3 : 2, floor, onFloor: setFloor, open: opened, onRead: read };
        return h("section", { "aria-label": title, "data-setting": name }, renderAnswer(one.value, options));
      }),
    );
    written.show(answers, values, sent);
    for (const [name, view] of Object.entries(values)) settings[name].showHits(view?.nodes ?? []);
    const counts = Object.entries(values).map(([name, view]) => view && (given.B ? t("ask.setting_says", { name, text: spoken(view) }) : spoken(view)));
    announce(counts.filter(Boolean).join(". "));
    if (isFresh) reveal();
    else selected.show();
    isFresh = false;
    showStale();
  }

  /** Return to the hit that the address names, and to its document. */
  function reveal() {
    const isShown = Boolean(selected.key && selected.reveal());
    if (isReading && isShown) answers.querySelector(".hit.is-current .read").click();
    else isReading = false;
  }

  async function toggleGold(node) {
    const place = document.activeElement?.closest("[data-setting]")?.dataset.setting;
    gold.toggle(node);
    await ask();
    const section = answers.querySelector(`[data-setting="${place}"]`);
    section?.querySelector(`[data-node="${CSS.escape(node.node_id)}"] .actions button`)?.focus();
  }

  const side = matchMedia(SIDE_WIDTH);
  side.addEventListener("change", fitSettings);
  settingsBox.open = side.matches;
  reset.addEventListener("click", () => {
    for (const one of Object.values(settings)) one.write({});
    floor = 0;
    showLayout();
    keepState();
    announce(t("ask.is_reset"));
    if (given.A && question.value.trim()) ask();
  });
  answers.addEventListener(
    "toggle",
    ({ target }) => {
      const node = target.matches(".why") ? target.closest(".hit").dataset.node : "";
      if (node) opened[target.open ? "add" : "delete"](node);
    },
    true, // the event does not bubble
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  question.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    ask();
  });
  compare.addEventListener("change", () => {
    if (compare.checked && !settings.B.describe()) settings.B.write(settings.A.values());
    settingsBox.open = compare.checked || settingsBox.open;
    showLayout();
    if (!question.value.trim() || !given.A) return;
    if (compare.checked && isCopy()) answers.append(h("section", { "aria-label": t("ask.setting_of", { name: "B" }) }, h("p", { class: "empty", role: "status" }, t("ask.copy"))));
    else ask();
  });
  again.addEventListener("click", ask);
  settingsBox.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || !event.target.matches("input")) return;
    event.preventDefault();
    ask();
  });
  const follow = debounced(() => {
    showLayout();
    showStale();
    if (!root.hidden) keepState();
  }, 150);
  for (const part of [form, settingsBox]) part.addEventListener("input", follow);
  root.addEventListener("view-shown", (event) => {
    const text = new URLSearchParams(event.detail).toString();
    if (!text && address) {
      history.replaceState(null, "", `#/ask?${address}`);
      return;
    }
    if (text === address && (text || given.A)) return;
    address = text;
    isDraft = true;
    restore(event.detail);
    isFresh = true;
    if (question.value.trim()) ask();
    else showWelcome(answers, info, state);
  });
  root.addEventListener("index-changed", () => {
    if (answers.querySelector(".welcome")) showWelcome(answers, info, state);
  });
  root.addEventListener("connection-restored", () => {
    questions.refresh();
    if (Object.values(given).some((one) => one.status === "rejected")) ask();
  });
}

/** Return the least relevance that an address names, or 0. */
function floorOf(text) {
  const value = Number(text ?? 0);
  return value > 0 && value <= 1 ? Math.round(100 * value) / 100 : 0;
}

function spoken(view) {
  const scores = Object.entries(view.scores ?? {}).filter(([, value]) => typeof value === "number");
  return commaList([countOf(view.nodes.length, "hit"), ...scores.map(([name, value]) => t("ask.measured", { measure: wordFor("measure", name), value: formatFixed(value, 2) }))]);
}

function showWelcome(answers, info, state) {
  renderWelcome(answers, info, state);
}

/** Return the fields of one setting. An empty field means the default. */
function settingFields(name, info) {
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
    token_budget: number("token_budget", { min: 1, step: 1, placeholder: t("ask.no_limit") }),
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
  return { element, legend, values, write: writeAll, read, describe, showHits: (nodes) => filter.showHits(nodes) };
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
      const [, role, content] = /^\s*(?:(user|assistant)\s*:)?\s*(.*)$/i.exec(line);
      return { role: (role ?? "user").toLowerCase(), content };
    });
}

/** Return the fields with the gold answers of the question. */
function goldFields() {
  const gold = h("textarea", { id: "gold", rows: 3, spellcheck: "false", placeholder: "letter-1\nletter-1:0-23" });
  const answer = h("textarea", { id: "gold-answers", rows: 3 });
  const element = h(
    "details",
    { id: "gold-box" },
    h("summary", null, t("gold.title")),
    h(
      "div",
      { class: "settings" },
      labeled(t("gold.ids"), gold, t("gold.ids.hint")),
      labeled(t("gold.answers"), answer, t("gold.answers.hint")),
    ),
  );
  const lines = (control) => control.value.split("\n").map((line) => line.trim()).filter(Boolean);

  function read() {
    const parsed = lines(gold).map(goldOf);
    return {
      ids: parsed.filter((one) => typeof one === "string"),
      spans: parsed.filter(Array.isArray),
      answers: lines(answer),
    };
  }

  function write({ ids = [], spans = [], answers = [] }) {
    gold.value = [...ids.map(writeId), ...spans.map(writeSpan)].join("\n");
    answer.value = answers.join("\n");
    element.open ||= Boolean(gold.value || answer.value);
  }

  function has(node) {
    return lines(gold).includes(goldLine(node));
  }

  function toggle(node) {
    const own = goldLine(node);
    const all = lines(gold);
    const rest = all.filter((line) => line !== own);
    gold.value = (rest.length < all.length ? rest : [...all, own]).join("\n");
    element.open ||= Boolean(gold.value);
  }

  /** Return the gold answers as `/retrieve` expects them. */
  function request() {
    const { ids, spans, answers } = read();
    return { ids, spans: spans.map(([id, start, end]) => ({ document_id: id, start, end })), answers };
  }

  return {
    element,
    read,
    request,
    write,
    has,
    toggle,
    values: () => ({ gold: gold.value.trim(), answers: answer.value.trim() }),
    restore: (values) => {
      gold.value = values.gold ?? "";
      answer.value = values.answers ?? "";
      element.open ||= Boolean(gold.value || answer.value);
    },
  };
}

/** Return an id, or a span as a list. A JSON string is an id, and a JSON list a span. */
function goldOf(line) {
  if (/^["[]/.test(line)) {
    try {
      const value = JSON.parse(line);
      if (typeof value === "string" || Array.isArray(value)) return value;
    } catch {
      // An id may begin with a bracket.
    }
  }
  const match = /^(.+):(\d+)\s*[-–]\s*(\d+)$/.exec(line);
  return match ? [match[1], Number(match[2]), Number(match[3])] : line;
}

/** Return a hit as a gold line: the span of a chunk, which stays valid when its document is edited, or the id of a summary. */
function goldLine(node) {
  return node.level ? writeId(node.node_id) : writeSpan([node.document_id, node.start, node.end]);
}

function writeId(id) {
  return typeof goldOf(id) === "string" && goldOf(id) === id ? id : JSON.stringify(id);
}

function writeSpan(span) {
  const [document, start, end] = Array.isArray(span) ? span : [span.document_id, span.start, span.end];
  const text = `${document}:${start}-${end}`;
  return Array.isArray(goldOf(text)) && goldOf(text)[0] === document ? text : JSON.stringify([document, start, end]);
}
