// The retrieval test: a question, one or two settings, and their answers side by side.

import { renderAnswer, showFloor } from "./answer.js";
import { api } from "./api.js";
import { announce, busy, clear, debounced, errorBox, h } from "./dom.js";
import { goldFields } from "./gold.js";
import { SelectedHit } from "./hits.js";
import { commaList, countOf, formatFixed, t, wordFor } from "./i18n.js";
import { mountQuestions } from "./questions.js";
import { openReader } from "./reader.js";
import { FORM_ID, settingFields } from "./settings.js";
import { renderWelcome } from "./welcome.js";
import { WrittenAnswers } from "./written.js";

const SIDE_WIDTH = "(min-width: 1100px)"; // as in the style sheet: the settings stand beside the answers
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
  const titles = {}; // what the settings were then called, by their presets
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
    settingsBox.classList.toggle("compare", compare.checked);
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
    const presets = Object.fromEntries(names().map((name) => [name, settings[name].preset()]));
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
        titles[name] = presets[name] ? t("ask.setting_preset", { name, preset: presets[name] }) : t("ask.setting_of", { name });
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
        const title = titles[name];
        if (one.status === "rejected") {
          return h("section", { "aria-label": title }, given.B ? h("h2", null, title) : null, errorBox(one.reason));
        }
        const otherLabel = name === "A" ? "B" : "A";
        const options = { isMarked: gold.has, onGold: toggleGold, other: values[otherLabel], otherLabel, label: given.B ? name : null, title: given.B ? title : null, languages: info.languages, reasons: state.reasons(), level: given.B ? 3 : 2, floor, onFloor: setFloor, open: opened, onRead: read };
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
    const { back, ...values } = event.detail; // back: from the tree, to the hit
    const text = new URLSearchParams(values).toString();
    if (!text && address) {
      history.replaceState(null, "", `#/ask?${address}`);
      if (back && !selected.reveal()) question.focus();
      return;
    }
    if (text === address && (text || given.A)) return;
    address = text;
    isDraft = true;
    restore(values);
    isFresh = true;
    if (question.value.trim()) ask();
    else renderWelcome(answers, info, state);
  });
  root.addEventListener("index-changed", () => {
    if (answers.querySelector(".welcome")) renderWelcome(answers, info, state);
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
