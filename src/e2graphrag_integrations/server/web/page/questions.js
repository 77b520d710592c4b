// The question set: kept in the browser, run as a batch for both settings.

import { api, followJob, storageName } from "./api.js";
import { announce, busy, clear, confirmed, download, errorBox, h, setStatus } from "./dom.js";
import { commaList, countOf, formatFixed, t, wordFor } from "./i18n.js";

const MIN_QUESTIONS = 10; // an interval of fewer questions says nothing
const MAX_FILE = 20_000_000; // bytes of an imported file

/**
 * Show the question set in a `details` element.
 *
 * `current()` returns the question and its gold answers in the form, `settings()` the settings to run, and
 * `load(question)` puts a saved question into the form.
 */
export function mountQuestions(root, { info, current, settings, load }) {
  const key = `e2graphrag:questions:${storageName(info)}`;
  let questions = readQuestions(key);
  let scores = null; // of the last batch: question text -> {A: {...}, B: {...}}

  const summary = h("summary", null, t("set.title"));
  const problem = h("div");
  const table = h("div", { class: "table-box" });
  const result = h("div");
  const status = h("p", { class: "hint", role: "status" });
  const progress = h("progress", { "aria-label": t("set.progress"), hidden: true });
  const save = h("button", { type: "button", class: "quiet" }, t("set.save"));
  const run = h("button", { type: "button" }, t("set.run"));
  const stop = h("button", { type: "button", class: "quiet", hidden: true }, t("do.stop"));
  const exportButton = h("button", { type: "button", class: "quiet" }, t("set.export"));
  const importFile = h("input", { type: "file", id: "import-questions", accept: ".jsonl,application/jsonl,application/x-ndjson", class: "visually-hidden", "aria-label": t("set.import.label"), tabindex: "-1", "aria-hidden": "true" });
  const importButton = h("button", { type: "button", class: "quiet", onclick: () => importFile.click() }, t("set.import"));
  const removeAll = h("button", { type: "button", class: "quiet danger" }, t("set.remove_all"));
  clear(
    root,
    summary,
    h(
      "div",
      { class: "stack" },
      h("p", { class: "hint" }, t("set.hint")),
      h("div", { class: "row" }, save, run, stop, exportButton, importButton, importFile, removeAll),
      problem,
      progress,
      status,
      result,
      table,
    ),
  );

  function keep() {
    try {
      localStorage.setItem(key, JSON.stringify(questions));
      clear(problem);
    } catch {
      clear(problem, errorBox(t("set.no_room")));
    }
    show();
  }

  function show() {
    summary.textContent = t("set.title_with", { count: questions.length });
    for (const button of [run, exportButton, removeAll]) button.hidden = !questions.length;
    if (!questions.length) {
      clear(table, h("p", { class: "empty" }, t("set.empty")));
      return;
    }
    const names = scores ? scores.names : [];
    clear(
      table,
      h(
        "table",
        { class: "blocks", role: "table" },
        h("caption", { class: "visually-hidden" }, t("set.saved")),
        h(
          "thead",
          { role: "rowgroup" },
          h(
            "tr",
            { role: "row" },
            [t("set.question"), t("set.gold")].map((title) => h("th", { scope: "col", role: "columnheader" }, title)),
            names.map((name) => h("th", { scope: "col", class: "number", role: "columnheader" }, t("set.measure_of", { measure: wordFor("measure", scores.measure), name }))),
            h("th", { scope: "col", role: "columnheader" }, h("span", { class: "visually-hidden" }, t("set.actions"))),
          ),
        ),
        h("tbody", { role: "rowgroup" }, questions.map((question, index) => row(question, index, names))),
      ),
    );
  }

  function row(question, index, names) {
    const own = scores?.rows[index];
    return h(
      "tr",
      { role: "row" },
      h("td", { role: "cell", dir: "auto" }, question.question),
      h("td", { role: "cell", "data-label": t("set.gold") }, describeGold(question)),
      names.map((name) => h("td", { class: "number", role: "cell", "data-label": t("set.measure_of", { measure: wordFor("measure", scores.measure), name }) }, typeof own?.[name]?.[scores.measure] === "number" ? formatFixed(own[name][scores.measure], 2) : "–")),
      h(
        "td",
        { role: "cell" },
        h(
          "div",
          { class: "row" },
          h("button", { type: "button", class: "quiet small", "aria-label": t("set.load.label", { question: question.question }), onclick: () => load(formOf(question)) }, t("set.load")),
          h("button", { type: "button", class: "quiet small danger", "aria-label": t("set.remove.label", { question: question.question }), onclick: () => remove(index) }, t("set.remove")),
        ),
      ),
    );
  }

  function remove(index) {
    questions = questions.filter((_, number) => number !== index);
    scores = null;
    keep();
    announce(t("set.removed"));
    (table.querySelectorAll("tbody tr")[Math.min(index, questions.length - 1)]?.querySelector("button") ?? save).focus();
  }

  save.addEventListener("click", () => {
    let one;
    try {
      one = current();
    } catch (error) {
      clear(problem, errorBox(error));
      return;
    }
    if (!one.question) clear(problem, errorBox(t("ask.write_first")));
    else if (!(one.ids.length || one.spans.length || one.answers.length)) clear(problem, errorBox(t("set.needs_gold")));
    else {
      questions = [...questions.filter((other) => other.question !== one.question), questionOf(one)];
      scores = null;
      keep();
      announce(t("set.is_saved", { count: questions.length }));
    }
  });

  exportButton.addEventListener("click", () => {
    download("questions.jsonl", `${questions.map((one) => JSON.stringify(one)).join("\n")}\n`, "application/jsonl");
  });

  importFile.addEventListener("change", async () => {
    const [file] = importFile.files;
    importFile.value = "";
    if (!file) return;
    try {
      if (file.size > MAX_FILE) throw new Error(t("set.too_large", { name: file.name, size: MAX_FILE / 1e6 }));
      const added = parseQuestions(await file.text());
      const texts = new Set(added.map((one) => one.question));
      questions = [...questions.filter((one) => !texts.has(one.question)), ...added];
      scores = null;
      keep();
      setStatus(status, t("set.imported", { count: added.length }));
    } catch (error) {
      clear(problem, errorBox(t("set.file_says", { name: file.name, message: error.message })));
    }
  });

  removeAll.addEventListener("click", async () => {
    const text = t("set.remove_all.text", { count: questions.length });
    if (!(await confirmed(t("set.remove_all.title"), text, t("set.remove_all")))) return;
    questions = [];
    scores = null;
    clear(result);
    keep();
    save.focus();
  });

  run.addEventListener("click", () => busy(run, runBatch));

  async function runBatch() {
    clear(problem);
    clear(result);
    setStatus(status, t("told.starting"));
    try {
      const chosen = settings();
      const asked = questions; // a question may be saved or removed meanwhile
      const { job_id: id } = await api.post("evaluations", { questions: asked, settings: chosen });
      stop.hidden = false;
      stop.onclick = () => api.remove(`jobs/${encodeURIComponent(id)}`).catch((error) => clear(problem, errorBox(error)));
      progress.hidden = false;
      progress.removeAttribute("value");
      const job = await followJob(id, (state) => {
        const last = state.progress?.at(-1);
        if (!last?.total) return;
        progress.max = last.total;
        progress.value = last.done;
        setStatus(status, t("set.done_of", { count: last.done, total: last.total }));
      });
      if (job.state === "stopped") {
        setStatus(status, t("told.stopped"));
        return;
      }
      setStatus(status, t("set.ran", { questions: countOf(asked.length, "question"), settings: countOf(Object.keys(chosen).length, "setting") }));
      if (asked === questions) scores = scoresOf(job.result);
      show();
      clear(result, reportTable(job.result), exportLinks(id));
      announce(t("set.is_done"));
    } catch (error) {
      setStatus(status, "");
      error.field?.focus();
      clear(problem, errorBox(error));
    } finally {
      stop.hidden = true;
      progress.hidden = true;
    }
  }

  show();
  return { refresh: show };
}

function readQuestions(key) {
  try {
    const value = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(value) ? value.filter((one) => typeof one?.question === "string") : [];
  } catch {
    return [];
  }
}

/** Return a question in the format of `e2graphrag evaluate`. */
function questionOf({ question, ids, spans, answers }) {
  const value = { question };
  if (ids.length) value.gold_ids = ids;
  if (spans.length) value.gold_spans = spans;
  if (answers.length) value.answer = answers;
  return value;
}

function formOf(one) {
  const answers = [one.answer ?? [], one.answers ?? []].flat();
  return { question: one.question, ids: one.gold_ids ?? [], spans: one.gold_spans ?? [], answers };
}

function describeGold(question) {
  const { ids, spans, answers } = formOf(question);
  const parts = [
    ids.length ? countOf(ids.length, "id") : "",
    spans.length ? countOf(spans.length, "span") : "",
    answers.length ? countOf(answers.length, "answer") : "",
  ];
  return commaList(parts.filter(Boolean));
}

function parseQuestions(text) {
  const found = [];
  text.split("\n").forEach((line, index) => {
    if (!line.trim()) return;
    let value;
    try {
      value = JSON.parse(index ? line : line.replace(/^\uFEFF/, ""));
    } catch (error) {
      throw new Error(t("set.no_json", { line: index + 1, message: error.message }));
    }
    if (typeof value?.question !== "string" || !value.question.trim()) throw new Error(t("set.no_question", { line: index + 1 }));
    for (const name of ["gold_ids", "gold_spans"]) {
      if (value[name] !== undefined && value[name] !== null && !Array.isArray(value[name])) throw new Error(t("set.no_list", { line: index + 1, name }));
    }
    if (!describeGold(value)) throw new Error(t("set.no_gold", { line: index + 1 }));
    found.push(value);
  });
  if (!found.length) throw new Error(t("set.no_questions"));
  return found;
}

function scoresOf(report) {
  const names = Object.keys(report.settings);
  const [measure] = Object.keys(report.settings[names[0]].measures);
  return measure ? { names, measure, rows: report.questions.map((one) => one.scores) } : null;
}

function withInterval(value) {
  if (value.questions < MIN_QUESTIONS) return formatFixed(value.mean, 3);
  return t("set.interval", { mean: formatFixed(value.mean, 3), low: formatFixed(value.low, 3), high: formatFixed(value.high, 3) });
}

function reportTable(report) {
  const names = Object.keys(report.settings);
  const measures = Object.keys(report.settings[names[0]].measures);
  const difference = report.differences?.[names[1]];
  const title = difference ? `${names[1]} − ${names[0]}` : null;
  return h(
    "table",
    { class: "blocks", role: "table", id: "report" },
    h("caption", null, captionOf(report)),
    h(
      "thead",
      { role: "rowgroup" },
      h(
        "tr",
        { role: "row" },
        [t("set.measure"), ...names.map((name) => t("ask.setting_of", { name })), title, t("set.questions")].filter(Boolean).map((text) => h("th", { scope: "col", role: "columnheader" }, text)),
      ),
    ),
    h(
      "tbody",
      { role: "rowgroup" },
      measures.map((measure) =>
        h(
          "tr",
          { role: "row" },
          h("td", { role: "cell" }, h("strong", null, wordFor("measure", measure))),
          names.map((name) => h("td", { role: "cell", "data-label": t("ask.setting_of", { name }) }, withInterval(report.settings[name].measures[measure]))),
          difference ? h("td", { role: "cell", "data-label": title, class: signOf(difference[measure]) }, withInterval(difference[measure])) : null,
          h("td", { role: "cell", "data-label": t("set.questions") }, report.settings[names[0]].measures[measure].questions),
        ),
      ),
    ),
  );
}

function captionOf(report) {
  const { length } = report.questions;
  return length < MIN_QUESTIONS ? t("set.short", { count: length }) : t("set.long");
}

function signOf({ low, high, questions }) {
  if (questions < MIN_QUESTIONS) return null;
  if (low > 0) return "is-better";
  return high < 0 ? "is-worse" : null;
}

function exportLinks(id) {
  const path = `jobs/${encodeURIComponent(id)}/result`;
  return h(
    "p",
    { class: "row" },
    h("a", { href: `${path}.csv`, download: "scores.csv" }, t("set.as_csv")),
    h("a", { href: `${path}.json`, download: "scores.json" }, t("set.as_json")),
  );
}
