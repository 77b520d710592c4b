// The documents of the index: their states, upload, cost, indexing again, and removal.

import { api, storageName, withQuery } from "./api.js";
import { announce, block, busy, choice, clear, confirmed, debounced, errorBox, h, labeled } from "./dom.js";
import { countOf, formatNumber, languageName, t, wordFor } from "./i18n.js";
import { JobList } from "./job_list.js";
import { openReader } from "./reader.js";
import { Selection, describeIndexing, describeRemoval, queuedOf } from "./selection.js";
import { UnindexedFiles } from "./unindexed.js";
import { uploadBox } from "./upload.js";

const PAGE_SIZE = 25;
const STATES = ["done", "pending", "processing", "failed"];
const COLUMNS = ["title", "status", "chunks", "characters"];
const DATED_COLUMNS = [...COLUMNS, "date"]; // if a document has a date
const NUMERIC = new Set(["chunks", "characters", "date"]); // the largest first

/** Show the documents. */
export function mountDocuments(root, _source, info, indexState) {
  const canAdd = !info.read_only && !info.shards;
  let offset = 0;
  let order = "title";
  let reading = ""; // the id of the document that is shown
  let address = "";
  let control = null;
  let columns = COLUMNS;
  const search = h("input", { id: "document-search", type: "search", autocomplete: "off" });
  const state = choice("document-status", [["", t("documents.all")], ...STATES.map((one) => [one, wordFor("status", one)])]);
  const sorting = choice("document-order", orderOptions(columns));
  const counts = h("p", { class: "facts grow" });
  const problem = h("div");
  const list = h("div", { class: "table-box" });
  const previous = h("button", { type: "button", class: "quiet" }, t("documents.previous"));
  const next = h("button", { type: "button", class: "quiet" }, t("documents.next"));
  const position = h("span", { class: "hint", role: "status" });
  const reindex = h("button", { type: "button", class: "quiet", id: "reindex", "data-writes": "all", hidden: !canAdd }, t("documents.extract"));
  const titles = new Map(); // of the documents that were listed
  const selection = info.read_only ? null : new Selection({ index: canAdd ? indexSelected : null, remove: removeSelected });
  const unindexed = new UnindexedFiles(storageName(info));
  const jobs = new JobList({ indexState, unindexed, changed: () => load(), left: () => search.focus() });
  const writes = !canAdd ? h("p", { class: "hint" }, info.read_only ? t("documents.cannot_write") : t("documents.shards", { count: info.shards })) : uploadBox(info, { jobs, unindexed, applyState });

  clear(
    root,
    h("h1", null, t("view.documents")),
    h("div", { class: "stack" }, writes, jobs.element, canAdd ? unindexed.element : null),
    h(
      "div",
      { class: "card stack list-card" },
      h("div", { class: "row" }, h("div", { class: "grow" }, labeled(t("documents.search"), search)), labeled(t("column.status"), state), h("div", { class: "narrow-only" }, labeled(t("documents.sort"), sorting))),
      h("div", { class: "row" }, counts, reindex),
      problem,
      selection?.element,
      list,
      h("nav", { class: "row", "aria-label": t("documents.pages") }, previous, next, position),
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
      keepPlace();
    } catch (error) {
      if (error.name !== "AbortError") clear(problem, errorBox(error));
    } finally {
      if (!signal.aborted) list.removeAttribute("aria-busy");
    }
  }

  function show(page) {
    clear(counts, STATES.filter((name) => page.counts[name]).map((name) => h("span", null, h("span", { class: `status status-${name}` }, wordFor("status", name)), ` ${formatNumber(page.counts[name])}`)));
    reindex.hidden = !canAdd || !page.counts.done;
    showColumns(page.has_dates ? DATED_COLUMNS : COLUMNS);
    const last = Math.min(offset + page.items.length, page.total);
    position.textContent = page.total ? t("documents.range", { from: offset + 1, to: last, total: page.total }) : t("documents.none");
    previous.disabled = offset === 0;
    next.disabled = last >= page.total;
    const isFiltered = Boolean(search.value.trim() || state.value);
    const key = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    selection?.begin();
    for (const one of page.items) titles.set(one.id, one.title);
    if (!page.items.length) clear(list, h("p", { class: "empty" }, t(isFiltered ? "documents.no_match" : "documents.empty")));
    else clear(list, documentTable(page.items));
    selection?.show();
    if (key) list.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus(); // the table is a new one
    applyState();
  }

  function showColumns(wanted) {
    if (wanted === columns) return;
    columns = wanted;
    clear(sorting, orderOptions(columns).map(([value, text]) => h("option", { value }, text)));
    sorting.value = order;
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
      h("caption", { class: "visually-hidden" }, t("view.documents")),
      h(
        "thead",
        { role: "rowgroup" },
        h(
          "tr",
          { role: "row" },
          selection ? hidden(t("column.selected")) : null,
          columns.map(sortHeader),
          h("th", { scope: "col", role: "columnheader" }, t("column.language")),
          hidden(t("column.actions")),
        ),
      ),
      h("tbody", { role: "rowgroup" }, items.map(documentRow)),
    );
  }

  function sortHeader(key) {
    const isSorted = order === key || order === `-${key}`;
    const sort = () => sortBy(isSorted ? directionsOf(key).find((one) => one !== order) : directionsOf(key)[0]);
    return h(
      "th",
      { scope: "col", role: "columnheader", class: NUMERIC.has(key) ? "number" : null, "aria-sort": isSorted ? directionOf(order) : null },
      h("button", { type: "button", class: "sort", "data-key": `sort ${key}`, onclick: sort }, t(`column.${key}`)),
    );
  }

  /** Sort the documents, and show the first page. */
  async function sortBy(chosen) {
    order = chosen;
    sorting.value = chosen;
    await restart();
    announce(t("documents.is_sorted", sortWords(order)));
  }

  function documentRow(one) {
    return h(
      "tr",
      { role: "row", "data-document": one.id },
      selection ? h("td", { role: "cell", class: "select" }, h("label", { class: "check" }, selection.box(one))) : null,
      h("td", { role: "cell" }, h("strong", { dir: "auto" }, one.title || one.id), one.title && one.title !== one.id ? h("div", { class: "hint", dir: "auto" }, one.id) : null),
      h(
        "td",
        { role: "cell", "data-label": t("column.status") },
        h("span", { class: `status status-${one.status}` }, wordFor("status", one.status)),
        one.status !== "done" && one.indexed ? h("div", { class: "hint" }, t("documents.earlier")) : null,
        one.worker ? h("div", { class: "hint" }, t("documents.worker", { worker: one.worker })) : null,
        one.reason ? h("div", { class: "reason", lang: "en", dir: "auto" }, one.reason) : null,
      ),
      h("td", { role: "cell", class: "number", "data-label": t("column.chunks") }, one.chunks ? formatNumber(one.chunks) : "–"),
      h("td", { role: "cell", class: "number", "data-label": t("column.characters") }, one.characters ? formatNumber(one.characters) : "–"),
      columns === DATED_COLUMNS ? h("td", { role: "cell", class: "number", "data-label": t("column.date"), title: one.date }, one.date?.slice(0, 10) ?? "–") : null,
      h("td", { role: "cell", "data-label": t("column.language") }, one.language ? languageName(one.language) : "–"),
      h(
        "td",
        { role: "cell" },
        h(
          "div",
          { class: "row" },
          one.indexed ? h("button", { type: "button", class: "quiet small", "data-key": `read ${one.id}`, "aria-label": t("documents.read.label", { id: one.id }), onclick: () => read({ id: one.id, title: one.title }) }, t("documents.read")) : null,
          !canAdd || one.status === "done" ? null : h("button", { type: "button", class: "quiet small", "data-writes": "all", "data-key": `index ${one.id}`, "aria-label": t("documents.index.label", { action: again(one), id: one.id }), onclick: (event) => startWork(event.currentTarget, `documents/${encodeURIComponent(one.id)}/reindex`, t("documents.indexing", { what: one.id })) }, again(one)),
        ),
      ),
    );
  }

  /** Keep in the address what the view shows. */
  function keepPlace() {
    const values = { search: search.value.trim(), status: state.value, order: order === "title" ? "" : order, page: offset ? 1 + offset / PAGE_SIZE : "", read: reading };
    address = withQuery("#/documents", values);
    if (!root.hidden) history.replaceState(null, "", address);
  }

  /** Show what the address names. */
  function restore({ search: wanted = "", status = "", order: by = "title", page = "1", read: id = "" }) {
    search.value = wanted;
    state.value = STATES.includes(status) ? status : "";
    order = DATED_COLUMNS.flatMap(directionsOf).includes(by) ? by : "title";
    sorting.value = order;
    offset = PAGE_SIZE * (Math.max(1, Math.floor(Number(page)) || 1) - 1);
    reading = id;
  }

  /** Show the text of a document, which the address names until it is closed. */
  function read({ id, title }) {
    reading = id;
    keepPlace();
    openReader({ id, title }, () => {
      reading = "";
      keepPlace();
    });
  }

  /** Start a job, and follow it; resolve to whether it was started. */
  function startWork(button, path, title, body) {
    return busy(button, async () => {
      try {
        const { job_id: id } = await api.post(path, body);
        clear(problem);
        jobs.closeFinished();
        jobs.start(id, title);
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
    if (!(await confirmed(t("documents.index_again.title", { count: ids.length }), describeIndexing(queued, cost, items.length - ids.length), t("documents.index_again")))) {
      button.focus();
      return;
    }
    // Not more calls than were shown.
    if (await startWork(button, "documents/reindex", t("documents.indexing", { what }), { ids, max_llm_calls: cost.llm_calls })) selection.clear();
  }

  async function removeSelected(items, button) {
    const count = items.length;
    if (!(await confirmed(t("documents.delete.title", { count }), describeRemoval(items), t("documents.delete", { count })))) {
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
      jobs.closeFinished();
      announce(t("documents.deleted", { count }));
      selection.clear();
      await Promise.all([indexState.refresh(), load()]);
      if (selection.element.hidden) search.focus();
    });
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
    const text = t("documents.extract.text");
    if (await confirmed(t("documents.extract.title"), text, t("documents.extract.do"))) await startWork(reindex, "reindex", t("documents.extract.job"));
    else reindex.focus();
  });
  root.addEventListener("view-shown", async ({ detail }) => {
    if (Object.keys(detail).length || !address) restore(detail);
    await load();
    if (reading) read({ id: reading, title: titles.get(reading) });
  });
  root.addEventListener("connection-restored", load);
  root.addEventListener("index-changed", load);
  root.addEventListener("job-started", (event) => {
    jobs.closeFinished();
    jobs.start(event.detail, t("documents.indexing_rest"));
  });
  indexState.addEventListener("state-changed", applyState);
  if (canAdd) jobs.resume().catch((error) => clear(problem, errorBox(error)));
}

function orderOptions(columns) {
  return columns.flatMap((key) => directionsOf(key).map((one) => [one, t("documents.sorted_by", sortWords(one))]));
}

/** Return the two orders of a column, the more useful one first. */
function directionsOf(key) {
  return NUMERIC.has(key) ? [`-${key}`, key] : [key, `-${key}`];
}

function directionOf(order) {
  return order.startsWith("-") ? "descending" : "ascending";
}

/** Return the words for an order: its column and its direction. */
function sortWords(order) {
  return { column: t(`column.${order.replace("-", "")}`), direction: t(`direction.${directionOf(order)}`) };
}

function again(one) {
  return t(one.status === "failed" ? "documents.index_again" : "documents.index");
}
