// The documents of the index: their states, upload, cost, indexing again, and removal.

import { api, followJob, withQuery } from "./api.js";
import { viewLink } from "./answer.js";
import { announce, block, busy, choice, clear, confirmed, countOf, debounced, errorBox, formatNumber, formatSeconds, h, labeled, setStatus } from "./dom.js";
import { Selection, describeIndexing, describeRemoval, queuedOf } from "./selection.js";
import { UnindexedFiles } from "./unindexed.js";

const PAGE_SIZE = 25;
const LISTED_AT_MOST = 500; // documents in one answer of the server
const STATES = ["done", "pending", "processing", "failed"];
const COLUMNS = [
  ["title", "Document"],
  ["status", "Status"],
  ["chunks", "Chunks"],
  ["characters", "Characters"],
];
const NUMERIC = new Set(["chunks", "characters"]); // the largest first
const STAGE_NAMES = { chunk: "Split", extract: "Entities", embed: "Vectors", summarize: "Summaries", write: "Write" };

const NO_FILE_NAME = /^[\s.]|\s$|[\\/\u0000-\u001f\u007f-\u009f\u200b\u2028-\u202e\u2066-\u2069\ufeff]/u; // the server refuses these

/** Show the documents. */
export function mountDocuments(root, _source, info, indexState) {
  let offset = 0;
  let order = "title"; // kept as long as the page is open
  let control = null;
  const search = h("input", { id: "document-search", type: "search", autocomplete: "off" });
  const state = choice("document-status", [["", "All"], ...STATES.map((one) => [one, one])]);
  const sorting = choice("document-order", COLUMNS.flatMap(([key, title]) => directionsOf(key).map((one) => [one, `${title}, ${directionOf(one)}`])));
  const counts = h("p", { class: "facts grow" });
  const problem = h("div");
  const list = h("div", { class: "table-box" });
  const previous = h("button", { type: "button", class: "quiet" }, "Previous");
  const next = h("button", { type: "button", class: "quiet" }, "Next");
  const position = h("span", { class: "hint", role: "status" });
  const reindex = h("button", { type: "button", class: "quiet", id: "reindex", "data-writes": "all", hidden: info.read_only }, "Extract entities again");
  const jobs = h("div", { class: "stack" });
  const selection = info.read_only ? null : new Selection({ index: indexSelected, remove: removeSelected });
  const unindexed = new UnindexedFiles(info.name);
  const writes = info.read_only ? h("p", { class: "hint" }, "This session can only read: it cannot add or remove documents.") : uploadBox(info, { startJob, closeFinished, unindexed, applyState });

  clear(
    root,
    h("h1", null, "Documents"),
    h("div", { class: "stack" }, writes, jobs, info.read_only ? null : unindexed.element),
    h(
      "div",
      { class: "card stack list-card" },
      h("div", { class: "row" }, h("div", { class: "grow" }, labeled("Search by id or title", search)), labeled("Status", state), h("div", { class: "narrow-only" }, labeled("Sort by", sorting))),
      h("div", { class: "row" }, counts, reindex),
      problem,
      selection?.element,
      list,
      h("nav", { class: "row", "aria-label": "Pages of documents" }, previous, next, position),
    ),
  );

  async function load() {
    control?.abort();
    control = new AbortController();
    const { signal } = control;
    list.setAttribute("aria-busy", "true");
    try {
      const page = await api.get(withQuery("documents", { offset, limit: PAGE_SIZE, order, status: state.value, search: search.value.trim() }), signal);
      if (page.total && offset >= page.total) {
        offset = PAGE_SIZE * Math.floor((page.total - 1) / PAGE_SIZE);
        await load();
        return;
      }
      clear(problem);
      show(page);
    } catch (error) {
      if (error.name !== "AbortError") clear(problem, errorBox(error));
    } finally {
      if (!signal.aborted) list.removeAttribute("aria-busy");
    }
  }

  function show(page) {
    clear(counts, STATES.filter((name) => page.counts[name]).map((name) => h("span", null, h("span", { class: `status status-${name}` }, name), ` ${formatNumber(page.counts[name])}`)));
    reindex.hidden = info.read_only || !page.counts.done;
    const last = Math.min(offset + page.items.length, page.total);
    position.textContent = page.total ? `${formatNumber(offset + 1)}–${formatNumber(last)} of ${formatNumber(page.total)}` : "No documents";
    previous.disabled = offset === 0;
    next.disabled = last >= page.total;
    const isFiltered = Boolean(search.value.trim() || state.value);
    const key = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    selection?.begin();
    if (!page.items.length) clear(list, h("p", { class: "empty" }, isFiltered ? "No document matches." : "The index has no documents yet."));
    else clear(list, documentTable(page.items));
    selection?.show();
    if (key) list.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus(); // the table is a new one
    applyState();
  }

  /** Disable what the server would refuse now; the state above the views says why. */
  function applyState() {
    for (const button of root.querySelectorAll("[data-writes]")) block(button, indexState.blocked(button.dataset.writes === "deletion"));
  }

  function documentTable(items) {
    const hidden = (text) => h("th", { scope: "col", role: "columnheader" }, h("span", { class: "visually-hidden" }, text));
    return h(
      "table",
      { class: "blocks documents", role: "table" },
      h("caption", { class: "visually-hidden" }, "Documents"),
      h(
        "thead",
        { role: "rowgroup" },
        h(
          "tr",
          { role: "row" },
          selection ? hidden("Selected") : null,
          COLUMNS.map(sortHeader),
          h("th", { scope: "col", role: "columnheader" }, "Language"),
          hidden("Actions"),
        ),
      ),
      h("tbody", { role: "rowgroup" }, items.map(documentRow)),
    );
  }

  function sortHeader([key, title]) {
    const isSorted = order === key || order === `-${key}`;
    const sort = () => sortBy(isSorted ? directionsOf(key).find((one) => one !== order) : directionsOf(key)[0]);
    return h(
      "th",
      { scope: "col", role: "columnheader", class: NUMERIC.has(key) ? "number" : null, "aria-sort": isSorted ? directionOf(order) : null },
      h("button", { type: "button", class: "sort", "data-key": `sort ${key}`, onclick: sort }, title),
    );
  }

  /** Sort the documents, and show the first page. */
  async function sortBy(chosen) {
    order = chosen;
    sorting.value = chosen;
    await restart();
    const [, title] = COLUMNS.find(([key]) => key === order.replace("-", ""));
    announce(`Sorted by ${title}, ${directionOf(order)}`);
  }

  function documentRow(one) {
    return h(
      "tr",
      { role: "row", "data-document": one.id },
      selection ? h("td", { role: "cell", class: "select" }, h("label", { class: "check" }, selection.box(one))) : null,
      h("td", { role: "cell" }, h("strong", null, one.title || one.id), one.title && one.title !== one.id ? h("div", { class: "hint" }, one.id) : null),
      h(
        "td",
        { role: "cell", "data-label": "Status" },
        h("span", { class: `status status-${one.status}` }, one.status),
        one.status !== "done" && one.indexed ? h("div", { class: "hint" }, "An earlier version can be searched.") : null,
        one.worker ? h("div", { class: "hint" }, `Worker: ${one.worker}`) : null,
        one.reason ? h("div", { class: "reason" }, one.reason) : null,
      ),
      h("td", { role: "cell", class: "number", "data-label": "Chunks" }, one.chunks ? formatNumber(one.chunks) : "–"),
      h("td", { role: "cell", class: "number", "data-label": "Characters" }, one.characters ? formatNumber(one.characters) : "–"),
      h("td", { role: "cell", "data-label": "Language" }, one.language ?? "–"),
      h(
        "td",
        { role: "cell" },
        h(
          "div",
          { class: "row" },
          one.indexed ? h("button", { type: "button", class: "quiet small", "data-key": `read ${one.id}`, "aria-label": `Read ${one.id}`, onclick: () => readDocument(one) }, "Read") : null,
          info.read_only || one.status === "done" ? null : h("button", { type: "button", class: "quiet small", "data-writes": "all", "data-key": `index ${one.id}`, "aria-label": `${again(one)}: ${one.id}`, onclick: (event) => startWork(event.currentTarget, `documents/${encodeURIComponent(one.id)}/reindex`, `Indexing ${one.id}`) }, again(one)),
        ),
      ),
    );
  }

  /** Start a job, and follow it; resolve to whether it was started. */
  function startWork(button, path, title, body) {
    return busy(button, async () => {
      try {
        const { job_id: id } = await api.post(path, body);
        clear(problem);
        closeFinished();
        startJob(id, title);
        return true;
      } catch (error) {
        clear(problem, errorBox(error));
        await indexState.refresh();
        return false;
      }
    });
  }

  /** Index the selected documents that are pending or have failed, after their cost was confirmed. */
  async function indexSelected(items, button) {
    const queued = queuedOf(items);
    const ids = queued.map((one) => one.id);
    let cost;
    await busy(button, async () => {
      try {
        cost = await api.post("documents/reindex/estimate", { ids });
      } catch (error) {
        clear(problem, errorBox(error));
      }
    });
    if (!cost) return;
    const what = countOf(ids.length, "document");
    if (!(await confirmed(`Index ${what} again?`, describeIndexing(queued, cost, items.length - ids.length), "Index again"))) {
      button.focus();
      return;
    }
    // Not more calls than were shown.
    if (await startWork(button, "documents/reindex", `Indexing ${what}`, { ids, max_llm_calls: cost.llm_calls })) selection.clear();
  }

  async function removeSelected(items, button) {
    const what = countOf(items.length, "document");
    if (!(await confirmed(`Delete ${what}?`, describeRemoval(items), `Delete ${what}`))) {
      button.focus();
      return;
    }
    await busy(button, async () => {
      try {
        await api.post("documents/delete", { ids: items.map((one) => one.id) });
      } catch (error) {
        clear(problem, errorBox(error));
        await indexState.refresh();
        return;
      }
      clear(problem);
      closeFinished();
      announce(`Deleted ${what}`);
      selection.clear();
      await Promise.all([indexState.refresh(), load()]);
      if (selection.element.hidden) search.focus();
    });
  }

  async function readDocument(one) {
    const text = h("div", { class: "document-text", tabindex: "0", role: "region", "aria-label": "Text", dir: "auto" });
    const trouble = h("div");
    const more = h("button", { type: "button", class: "quiet" }, "Show more");
    const dialog = h(
      "dialog",
      { class: "wide-dialog", "aria-labelledby": "read-title" },
      h("h2", { id: "read-title" }, one.title || one.id),
      text,
      trouble,
      h(
        "div",
        { class: "row" },
        more,
        h("a", { href: viewLink("tree", { document: one.id }), onclick: () => dialog.close() }, "Show the tree"),
        h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
      ),
    );
    let end = 0;
    const extend = async () => {
      try {
        const part = await api.get(withQuery(`documents/${encodeURIComponent(one.id)}`, { start: end }));
        text.append(part.text);
        end = part.end;
        more.hidden = end >= part.length;
        clear(trouble);
      } catch (error) {
        clear(trouble, errorBox(error));
      }
    };
    more.addEventListener("click", () => busy(more, extend));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
    await extend();
  }

  /** Remove the results of earlier jobs, which a change makes outdated. */
  function closeFinished() {
    for (const box of jobs.querySelectorAll("[data-finished]")) box.remove();
  }

  /** Show the progress of a job, and its result. If it fails, the files with these names are kept as not indexed. */
  async function startJob(id, title, names = []) {
    const stages = h("div", { class: "stages" });
    const status = h("p", { class: "hint", role: "status" }, "Starting …");
    const stop = h("button", { type: "button", class: "quiet small" }, "Stop");
    const close = h("button", { type: "button", class: "quiet small", hidden: true }, "Close");
    const box = h("section", { class: "card stack", "aria-label": title, "data-job": id }, h("h2", null, title), stages, status, h("div", { class: "row" }, stop, close));
    jobs.append(box);
    indexState.refresh();
    close.addEventListener("click", () => {
      box.remove();
      search.focus();
    });
    stop.addEventListener("click", () =>
      busy(stop, async () => {
        try {
          await api.remove(`jobs/${encodeURIComponent(id)}`);
          setStatus(status, "Stopping. Finished steps are kept.");
        } catch (error) {
          status.after(errorBox(error));
        }
      }),
    );
    try {
      const job = await followJob(id, (current) => {
        showStages(stages, current.progress ?? []);
        setStatus(status, current.state === "waiting" ? "Waiting for another job" : "Running");
      });
      showStages(stages, job.progress ?? []);
      const said = job.state === "stopped" ? "Stopped. Finished steps are kept. Files that the list below lacks were not added." : describeResult(job.result);
      setStatus(status, said);
      announce(said);
      for (const [document, reason] of Object.entries({ ...job.result?.unread, ...job.result?.failed })) status.after(h("p", { class: "error", role: "alert" }, `${document}: ${reason}`));
      unindexed.add(Object.entries(job.result?.unread ?? {}));
    } catch (error) {
      setStatus(status, "");
      status.after(errorBox(error));
      await keepUnlisted(names, error.message);
    }
    stop.hidden = true;
    close.hidden = false;
    box.dataset.finished = "";
    await Promise.all([indexState.refresh(), load()]);
  }

  /** Keep the files of a job that failed, except those that the list of documents shows as failed or waiting. */
  async function keepUnlisted(names, reason) {
    if (!names.length) return;
    const pages = await Promise.allSettled(["failed", "pending"].map((status) => api.get(withQuery("documents", { status, limit: LISTED_AT_MOST }))));
    const listed = new Set(pages.flatMap((one) => one.value?.items ?? []).map((one) => one.id));
    unindexed.add(names.filter((name) => !listed.has(name)).map((name) => [name, reason]));
  }

  /** Follow the jobs that run already, for example after a reload. */
  async function resumeJobs() {
    try {
      const running = await api.get("jobs");
      const ids = new Set([...jobs.querySelectorAll("[data-job]")].map((one) => one.dataset.job));
      for (const job of running.items) {
        if (["waiting", "running"].includes(job.state) && job.kind !== "evaluation" && !ids.has(job.id)) startJob(job.id, "Indexing");
      }
    } catch (error) {
      clear(problem, errorBox(error));
    }
  }

  const restart = () => {
    offset = 0;
    return load();
  };
  search.addEventListener("input", debounced(restart));
  state.addEventListener("change", restart);
  sorting.addEventListener("change", () => sortBy(sorting.value));
  previous.addEventListener("click", () => {
    offset = Math.max(0, offset - PAGE_SIZE);
    load();
  });
  next.addEventListener("click", () => {
    offset += PAGE_SIZE;
    load();
  });
  reindex.addEventListener("click", async () => {
    const text = "The entities of all documents are extracted again, with the newest rules. No language model is called.";
    if (await confirmed("Extract the entities again?", text, "Extract")) await startWork(reindex, "reindex", "Extracting entities again");
    else reindex.focus();
  });
  root.addEventListener("view-shown", load);
  root.addEventListener("connection-restored", load);
  root.addEventListener("index-changed", load);
  root.addEventListener("job-started", (event) => {
    closeFinished();
    startJob(event.detail, "Indexing pending and failed documents");
  });
  indexState.addEventListener("state-changed", applyState);
  if (!info.read_only) resumeJobs();
}

/** Return the two orders of a column, the more useful one first. */
function directionsOf(key) {
  return NUMERIC.has(key) ? [`-${key}`, key] : [key, `-${key}`];
}

function directionOf(order) {
  return order.startsWith("-") ? "descending" : "ascending";
}

function again(one) {
  return one.status === "failed" ? "Index again" : "Index";
}

function showStages(box, progress) {
  clear(
    box,
    progress.map((one) => {
      const name = STAGE_NAMES[one.stage] ?? one.stage;
      return [
        h("span", null, name),
        h("progress", { max: Math.max(1, one.total), value: one.done, "aria-label": name }),
        h("span", { class: "hint" }, `${formatNumber(one.done)} of ${formatNumber(one.total)}`),
      ];
    }),
  );
}

function describeResult(result) {
  if (!result) return "Done";
  const failed = Object.keys({ ...result.unread, ...result.failed }).length;
  const parts = [
    `${countOf(result.documents ?? 0, "document")} indexed`,
    result.skipped?.length ? `${formatNumber(result.skipped.length)} unchanged` : "",
    result.empty?.length ? `${formatNumber(result.empty.length)} without text` : "",
    failed ? `${formatNumber(failed)} failed` : "",
    result.llm_calls ? countOf(result.llm_calls, "LLM call") : "",
    result.seconds?.total ? formatSeconds(result.seconds.total) : "",
  ];
  return `Done: ${parts.filter(Boolean).join(", ")}`;
}

function formatBytes(bytes) {
  return bytes < 1e6 ? `${formatNumber(Math.max(0.1, Math.round(bytes / 100) / 10))} kB` : `${formatNumber(Math.round(bytes / 1e5) / 10)} MB`;
}

/** Return the box that adds documents: files, then their cost, then the job. */
function uploadBox(info, { startJob, closeFinished, unindexed, applyState }) {
  const { max_bytes: limit, max_files: most, suffixes } = info.upload;
  const input = h("input", { type: "file", id: "upload", multiple: true, "aria-label": "Choose files", accept: suffixes.join(","), class: "visually-hidden", tabindex: "-1", "aria-hidden": "true" });
  const choose = h("button", { type: "button", class: "quiet", onclick: () => input.click() }, "Choose files");
  const chosen = h("div", { class: "stack", role: "status" });
  const drop = h("div", { class: "drop" }, choose, " or drop them here", h("p", { class: "hint" }, `Text, Markdown, HTML, PDF, DOCX, XLSX, PPTX, EPUB, RTF and source code, up to ${formatBytes(limit)} at a time. A file with the name of a document replaces it.`), h("details", { class: "kinds" }, h("summary", null, "All kinds of files"), h("p", { class: "hint" }, suffixes.join(" "))), input);
  const box = h("section", { class: "card stack", "aria-label": "Add documents" }, h("h2", null, "Add documents"), drop, chosen);

  let newest = null;

  async function estimate(files) {
    newest = files;
    closeFinished();
    unindexed.remove(files.map((file) => file.name));
    const accepted = withoutRefused(files);
    clear(chosen, accepted.length ? h("p", { class: "hint" }, `Reading ${countOf(accepted.length, "file")} …`) : null);
    if (!accepted.length) return;
    let cost;
    try {
      cost = await api.post("documents/estimate", formOf(accepted));
    } catch (error) {
      if (files === newest) clear(chosen, errorBox(error));
      return;
    }
    if (files !== newest) return; // other files were chosen meanwhile
    const reasons = new Map([
      ...Object.entries(cost.unread),
      ...cost.skipped.map((id) => [id, "the index already has this file, unchanged"]),
      ...cost.empty.map((id) => [id, "the file contains no text"]),
    ]);
    unindexed.add(reasons);
    showCost(accepted.filter((file) => !reasons.has(file.name)), cost);
  }

  /** Return the files that can be sent, and keep the others with the reason. */
  function withoutRefused(files) {
    const names = new Set();
    const refused = [];
    let size = 0;
    const problemBeside = (file) => {
      if (names.has(file.name)) return "another file of this name was chosen, too";
      if (size + file.size > limit) return `the files together have more than ${formatBytes(limit)}: choose this one again afterwards`;
      return names.size < most ? "" : `there are more than ${formatNumber(most)} files: choose this one again afterwards`;
    };
    const accepted = files.filter((file) => {
      const reason = problemOf(file) || problemBeside(file);
      if (reason) {
        refused.push([names.has(file.name) ? `${file.name} (again)` : file.name, reason]);
        return false;
      }
      names.add(file.name);
      size += file.size;
      return true;
    });
    unindexed.add(refused);
    if (refused.length) announce(`Not indexed: ${countOf(refused.length, "file")}`);
    return accepted;
  }

  function formOf(files, fields = {}) {
    const data = new FormData();
    for (const [name, value] of Object.entries(fields)) data.append(name, value);
    for (const file of files) data.append("files", file, file.name);
    return data;
  }

  function showCost(files, cost) {
    if (!files.length) {
      clear(chosen, h("p", { class: "hint" }, "None of these files will be indexed. The reasons are below."));
      return;
    }
    const index = h("button", { type: "button", id: "index", "data-writes": "all" }, `Index ${countOf(files.length, "file")}`);
    const leave = () => {
      clear(chosen);
      choose.focus();
    };
    const cancel = h("button", { type: "button", class: "quiet", onclick: leave }, "Cancel");
    const trouble = h("div");
    index.addEventListener("click", () =>
      busy(index, async () => {
        try {
          // Not more calls than were shown.
          const fields = { on_duplicate: "replace", max_llm_calls: cost.llm_calls };
          const { job_id: id } = await api.post("documents", formOf(files, fields));
          startJob(id, `Indexing ${countOf(files.length, "file")}`, files.map((file) => file.name));
          leave();
        } catch (error) {
          clear(trouble, errorBox(error));
        }
      }),
    );
    clear(
      chosen,
      h("ul", { class: "files" }, files.map((file) => h("li", null, file.name, h("span", { class: "hint" }, formatBytes(file.size))))),
      cost.replaces.length ? h("div", { class: "replaces" }, h("p", null, h("strong", null, `Replaces ${countOf(cost.replaces.length, "document")}:`)), h("ul", { class: "files" }, cost.replaces.map((id) => h("li", null, id)))) : null,
      costTable(files.length, cost),
      h("div", { class: "row" }, index, cancel),
      trouble,
    );
    applyState();
    index.focus();
  }

  function problemOf(file) {
    const name = file.name.toLowerCase();
    if (!suffixes.some((suffix) => name.endsWith(suffix))) return "files of this kind cannot be read";
    if (NO_FILE_NAME.test(file.name)) return "the name begins or ends with white space or a dot, or has a character that is not allowed";
    if (file.size > limit) return `the file has ${formatBytes(file.size)}, but at most ${formatBytes(limit)} are allowed at a time`;
    return file.size ? "" : "the file is empty";
  }

  input.addEventListener("change", () => {
    const files = [...input.files];
    input.value = "";
    if (files.length) estimate(files);
  });
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("is-over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("is-over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("is-over");
    const files = [...event.dataTransfer.files];
    if (files.length) estimate(files);
  });
  return box;
}

function costTable(documents, cost) {
  const rows = [
    ["Documents to index", formatNumber(documents)],
    ["Chunks", formatNumber(cost.chunks)],
    ["Summaries", formatNumber(cost.summaries)],
    ["LLM calls", formatNumber(cost.llm_calls)],
  ];
  if (cost.llm_calls) rows.push(["Tokens, at most", `${formatNumber(cost.prompt_tokens)} in, ${formatNumber(cost.completion_tokens)} out`]);
  return h(
    "div",
    null,
    h("h3", null, "Cost"),
    h("dl", { class: "timings" }, rows.map(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
    cost.llm_calls ? null : h("p", { class: "hint" }, "No language model is called."),
  );
}
