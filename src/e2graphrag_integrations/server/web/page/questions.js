// The question set: kept in the browser, run as a batch for both settings.

import { api, followJob } from "./api.js";
import { measureName } from "./answer.js";
import { announce, busy, clear, confirmed, countOf, download, errorBox, formatNumber, h, setStatus } from "./dom.js";

const MIN_QUESTIONS = 10; // an interval of fewer questions says nothing
const MAX_FILE = 20_000_000; // bytes of an imported file

/**
 * Show the question set in a `details` element.
 *
 * `current()` returns the question and its gold answers in the form, `settings()` the settings to run, and
 * `load(question)` puts a saved question into the form.
 */
export function mountQuestions(root, { info, current, settings, load }) {
  const key = `e2graphrag:questions:${info.name}`;
  let questions = readQuestions(key);
  let scores = null; // of the last batch: question text -> {A: {...}, B: {...}}

  const summary = h("summary", null, "Question set");
  const problem = h("div");
  const table = h("div", { class: "table-box" });
  const result = h("div");
  const status = h("p", { class: "hint", role: "status" });
  const progress = h("progress", { "aria-label": "Progress of the batch", hidden: true });
  const save = h("button", { type: "button", class: "quiet" }, "Save the question");
  const run = h("button", { type: "button" }, "Run the set");
  const stop = h("button", { type: "button", class: "quiet", hidden: true }, "Stop");
  const exportButton = h("button", { type: "button", class: "quiet" }, "Export");
  const importFile = h("input", { type: "file", id: "import-questions", accept: ".jsonl,application/jsonl,application/x-ndjson", class: "visually-hidden", "aria-label": "Import questions", tabindex: "-1", "aria-hidden": "true" });
  const importButton = h("button", { type: "button", class: "quiet", onclick: () => importFile.click() }, "Import");
  const removeAll = h("button", { type: "button", class: "quiet danger" }, "Remove all");
  clear(
    root,
    summary,
    h(
      "div",
      { class: "stack" },
      h("p", { class: "hint" }, "The set stays in this browser. Exported files can be used with e2graphrag evaluate, and imported from it."),
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
      clear(problem, errorBox("The browser has no room for the question set. Export it."));
    }
    show();
  }

  function show() {
    summary.textContent = `Question set (${questions.length})`;
    for (const button of [run, exportButton, removeAll]) button.hidden = !questions.length;
    if (!questions.length) {
      clear(table, h("p", { class: "empty" }, "No questions yet. Ask one, mark its gold answers, and save it."));
      return;
    }
    const names = scores ? scores.names : [];
    clear(
      table,
      h(
        "table",
        { class: "blocks", role: "table" },
        h("caption", { class: "visually-hidden" }, "Saved questions"),
        h(
          "thead",
          { role: "rowgroup" },
          h(
            "tr",
            { role: "row" },
            ["Question", "Gold answers"].map((title) => h("th", { scope: "col", role: "columnheader" }, title)),
            names.map((name) => h("th", { scope: "col", class: "number", role: "columnheader" }, `${measureName(scores.measure)}, ${name}`)),
            h("th", { scope: "col", role: "columnheader" }, h("span", { class: "visually-hidden" }, "Actions")),
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
      h("td", { role: "cell" }, question.question),
      h("td", { role: "cell", "data-label": "Gold answers" }, describeGold(question)),
      names.map((name) => h("td", { class: "number", role: "cell", "data-label": `${measureName(scores.measure)}, ${name}` }, typeof own?.[name]?.[scores.measure] === "number" ? own[name][scores.measure].toFixed(2) : "–")),
      h(
        "td",
        { role: "cell" },
        h(
          "div",
          { class: "row" },
          h("button", { type: "button", class: "quiet small", "aria-label": `Load: ${question.question}`, onclick: () => load(formOf(question)) }, "Load"),
          h("button", { type: "button", class: "quiet small danger", "aria-label": `Remove: ${question.question}`, onclick: () => remove(index) }, "Remove"),
        ),
      ),
    );
  }

  function remove(index) {
    questions = questions.filter((_, number) => number !== index);
    scores = null;
    keep();
    announce("Removed");
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
    if (!one.question) clear(problem, errorBox("Write a question first."));
    else if (!(one.ids.length || one.spans.length || one.answers.length)) clear(problem, errorBox("Give a gold answer first: open “Gold answers”, or mark a hit as gold."));
    else {
      questions = [...questions.filter((other) => other.question !== one.question), questionOf(one)];
      scores = null;
      keep();
      announce(`Saved. ${countOf(questions.length, "question")} in the set`);
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
      if (file.size > MAX_FILE) throw new Error(`${file.name} is larger than ${formatNumber(MAX_FILE / 1e6)} MB.`);
      const added = parseQuestions(await file.text());
      const texts = new Set(added.map((one) => one.question));
      questions = [...questions.filter((one) => !texts.has(one.question)), ...added];
      scores = null;
      keep();
      setStatus(status, `Imported ${countOf(added.length, "question")}.`);
    } catch (error) {
      clear(problem, errorBox(`${file.name}: ${error.message}`));
    }
  });

  removeAll.addEventListener("click", async () => {
    const text = `${countOf(questions.length, "question")} will be removed from this browser.`;
    if (!(await confirmed("Remove all questions?", text, "Remove all"))) return;
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
    setStatus(status, "Starting …");
    try {
      const chosen = settings();
      const { job_id: id } = await api.post("evaluations", { questions, settings: chosen });
      stop.hidden = false;
      stop.onclick = () => api.remove(`jobs/${encodeURIComponent(id)}`).catch((error) => clear(problem, errorBox(error)));
      progress.hidden = false;
      progress.removeAttribute("value");
      const asked = questions;
      const job = await followJob(id, (state) => {
        const last = state.progress?.at(-1);
        if (!last?.total) return;
        progress.max = last.total;
        progress.value = last.done;
        setStatus(status, `${formatNumber(last.done)} of ${formatNumber(last.total)} questions`);
      });
      if (job.state === "stopped") {
        setStatus(status, "Stopped.");
        return;
      }
      setStatus(status, `${countOf(asked.length, "question")}, ${countOf(Object.keys(chosen).length, "setting")}.`);
      if (asked === questions) scores = scoresOf(job.result);
      show();
      clear(result, reportTable(job.result), exportLinks(id));
      announce("The batch is done");
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
  return parts.filter(Boolean).join(", ");
}

function parseQuestions(text) {
  const found = [];
  text.split("\n").forEach((line, index) => {
    if (!line.trim()) return;
    let value;
    try {
      value = JSON.parse(index ? line : line.replace(/^\uFEFF/, ""));
    } catch (error) {
      throw new Error(`line ${index + 1} is not JSON: ${error.message}`);
    }
    if (typeof value?.question !== "string" || !value.question.trim()) throw new Error(`line ${index + 1} has no "question"`);
    for (const name of ["gold_ids", "gold_spans"]) {
      if (value[name] !== undefined && value[name] !== null && !Array.isArray(value[name])) throw new Error(`line ${index + 1}: ${name} must be a list`);
    }
    if (!describeGold(value)) throw new Error(`line ${index + 1} has no gold_ids, gold_spans or answer`);
    found.push(value);
  });
  if (!found.length) throw new Error("the file has no question");
  return found;
}

function scoresOf(report) {
  const names = Object.keys(report.settings);
  const [measure] = Object.keys(report.settings[names[0]].measures);
  return measure ? { names, measure, rows: report.questions.map((one) => one.scores) } : null;
}

function withInterval(value) {
  if (value.questions < MIN_QUESTIONS) return value.mean.toFixed(3);
  return `${value.mean.toFixed(3)} (${value.low.toFixed(3)} to ${value.high.toFixed(3)})`;
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
        ["Measure", ...names.map((name) => `Setting ${name}`), title, "Questions"].filter(Boolean).map((text) => h("th", { scope: "col", role: "columnheader" }, text)),
      ),
    ),
    h(
      "tbody",
      { role: "rowgroup" },
      measures.map((measure) =>
        h(
          "tr",
          { role: "row" },
          h("td", { role: "cell" }, h("strong", null, measureName(measure))),
          names.map((name) => h("td", { role: "cell", "data-label": `Setting ${name}` }, withInterval(report.settings[name].measures[measure]))),
          difference ? h("td", { role: "cell", "data-label": title, class: signOf(difference[measure]) }, withInterval(difference[measure])) : null,
          h("td", { role: "cell", "data-label": "Questions" }, report.settings[names[0]].measures[measure].questions),
        ),
      ),
    ),
  );
}

function captionOf(report) {
  const isShort = report.questions.length < MIN_QUESTIONS;
  const hint = `Means of ${countOf(report.questions.length, "question")}: too few for intervals. About 30 questions show large differences.`;
  return isShort ? hint : "Means with their 95% intervals (from 10 questions on). A difference is clear if its interval does not contain 0.";
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
    h("a", { href: `${path}.csv`, download: "scores.csv" }, "Scores as CSV"),
    h("a", { href: `${path}.json`, download: "scores.json" }, "Report as JSON"),
  );
}
