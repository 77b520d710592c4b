// The report: the views of an index over the data in the same file. The file consists of blocks of JSON; each is
// parsed when it is needed, so that the first view appears before the texts have been read.

import { renderAnswer } from "./answer.js";
import { announce, clear, h } from "./dom.js";
import { edgeKey } from "./drawing.js";
import { mountGraph } from "./graph.js";
import { commaList, countOf, fillDocument, formatNumber, languageName, t, wordFor } from "./i18n.js";
import { viewLink } from "./links.js";
import { mountTree } from "./tree.js";

const LISTED_ROWS = 100;
const OVERVIEW_COLUMNS = ["title", "chunks", "characters", "language"];
const REPORT_TITLES = { overview: "report.overview", answers: "report.answers", graph: "view.graph", tree: "view.tree" };

const parsedBlocks = new Map();

/** Return the value of a block. A block below the script may not have been read from the file yet. */
async function readBlock(name) {
  if (!document.getElementById(`data-${name}`) && document.readyState === "loading") {
    await new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve, { once: true }));
  }
  if (!parsedBlocks.has(name)) parsedBlocks.set(name, JSON.parse(document.getElementById(`data-${name}`).textContent));
  return parsedBlocks.get(name);
}

/** Return what the report says about itself, from a code and values; empty if there is nothing to say. */
function noteText(note) {
  if (!note) return "";
  const { counts, ...values } = note.values;
  const parts = Object.entries(counts ?? {}).map(([status, count]) => t("report.state_count", { count, status: wordFor("status", status) }));
  return t(`report.note.${note.code}`, { ...values, counts: commaList(parts) });
}

/** Return an entity from its columns in the data. */
function graphNode([name, mentions, documents, degree, label, isName, type]) {
  return { name, mentions, documents, degree, label, is_name: isName, type };
}

/** The data of the graph and the tree, with the methods of the source over HTTP. */
class ReportSource {
  constructor(start) {
    this.isReport = true;
    this.start = start;
    this.graphNote = noteText(start.graph_note);
    this.treeNote = noteText(start.tree_note);
  }

  async graph() {
    if (!this.parts) {
      const data = await readBlock("graph");
      this.parts = {
        items: data.items,
        neighborhoods: new Map(data.neighborhoods.map((one) => [one.nodes[0][0], one])),
        details: new Map(data.details.map((one) => [one.info.name, one])),
        sentences: new Map(data.sentences.map((one) => [edgeKey(one), one])),
        paths: data.paths,
        nodes: new Map(data.neighborhoods.map((one) => [one.nodes[0][0], graphNode(one.nodes[0])])),
      };
    }
    return this.parts;
  }

  async entities({ prefix = "", limit, offset = 0, type }) {
    const wanted = prefix.trim().toLowerCase();
    const found = (await this.graph()).items.filter((one) => one.name.startsWith(wanted) && (!type || one.type === type));
    return { items: found.slice(offset, offset + limit), total: found.length };
  }

  async neighborhood(name, limit) {
    const found = (await this.graph()).neighborhoods.get(name);
    if (!found) throw new Error(t("report.no_neighborhood", { name }));
    const names = found.nodes.slice(0, limit).map((node) => node[0]);
    return {
      center: names[0],
      nodes: found.nodes.slice(0, limit).map(graphNode),
      edges: found.edges
        .filter(([one, other]) => one < limit && other < limit)
        .map(([one, other, weight]) => ({ source: names[one], target: names[other], weight })),
      omitted: found.nodes[0][3] - names.length + 1,
      nouns: found.nouns,
    };
  }

  async entity(name) {
    const found = (await this.graph()).details.get(name);
    if (!found) throw new Error(t("report.no_mentions", { name }));
    return found;
  }

  async edge(source, target) {
    const found = (await this.graph()).sentences.get(edgeKey({ source, target }));
    if (!found) throw new Error(t("report.no_edge"));
    return found;
  }

  async path(source, target) {
    const isWanted = (path) => path.entities[0] === source && path.entities.at(-1) === target;
    const { paths, nodes } = await this.graph();
    const found = paths.filter(isWanted);
    const names = new Set(found.flatMap((path) => path.entities));
    const unknown = (name) => ({ name, label: name, mentions: 0, documents: 0, degree: 0, is_name: true, type: "other" });
    return { paths: found, nodes: [...names].map((name) => nodes.get(name) ?? unknown(name)) };
  }

  async rows() {
    if (!this.documentRows) {
      this.documentRows = (await readBlock("documents")).map(([id, title, chunks, length, language, text]) => ({ id, title, chunks, length, language, text }));
      this.documentsById = new Map(this.documentRows.map((row) => [row.id, row]));
    }
    return this.documentRows;
  }

  async documents({ offset = 0, limit, search = "" }) {
    const wanted = search.trim().toLowerCase();
    const found = (await this.rows()).filter((row) => `${row.id}\n${row.title ?? ""}`.toLowerCase().includes(wanted));
    return { items: found.slice(offset, offset + limit), total: found.length };
  }

  async document(id) {
    await this.rows();
    const row = this.documentsById.get(id);
    if (!row) throw new Error(t("report.no_document", { id }));
    if (row.text < 0) throw new Error(t("report.no_text"));
    return { row, ...(await readBlock(`text-${row.text}`)) };
  }

  async tree(id, { offset = 0 } = {}) {
    const found = await this.document(id);
    return this.nodesAt(found, found.nodes.roots, offset);
  }

  async children(nodeId, { offset = 0 } = {}) {
    const [text, place] = nodeId.split(":").map(Number);
    const row = (await this.rows()).find((one) => one.text === text);
    const found = await this.document(row.id);
    const first = found.nodes.first[place];
    const places = Array.from({ length: found.nodes.count[place] }, (_, index) => first + index);
    return this.nodesAt(found, places, offset);
  }

  nodesAt({ row, pieces, nodes }, places, offset) {
    const part = places.slice(offset, offset + LISTED_ROWS);
    return {
      nodes: part.map((place) => ({
        node_id: `${row.text}:${place}`,
        document_id: row.id,
        level: nodes.level[place],
        start: nodes.start[place],
        end: nodes.end[place],
        text: nodes.texts[place] ?? this.cut(pieces, nodes.start[place], nodes.end[place]),
        children: nodes.count[place],
      })),
      total: places.length,
    };
  }

  async text(id, start, end) {
    const { row, pieces } = await this.document(id);
    if (!pieces) throw new Error(t("report.parts_only"));
    const stop = Math.min(end, row.length);
    return { id, start, end: stop, length: row.length, text: this.cut(pieces, start, stop) };
  }

  /** Return a range of a text, in code points, which the pieces count, too. */
  cut(pieces, start, end) {
    const size = this.start.piece;
    const parts = [];
    for (let place = Math.floor(start / size); place * size < end; place += 1) {
      const letters = Array.from(pieces[place] ?? "");
      parts.push(letters.slice(Math.max(0, start - place * size), end - place * size).join(""));
    }
    return parts.join("");
  }
}

function mountOverview(root, source) {
  const { start } = source;
  const table = h("tbody");
  const more = h("button", { type: "button", class: "quiet small", hidden: true }, t("tree.more_documents"));
  let count = 0;
  const extend = async () => {
    const rows = await source.rows();
    for (const row of rows.slice(count, count + LISTED_ROWS)) table.append(overviewRow(row));
    count = Math.min(count + LISTED_ROWS, rows.length);
    more.hidden = count >= rows.length;
  };
  more.addEventListener("click", extend);
  extend();
  clear(
    root,
    h("h1", null, t("report.title", { name: start.name })),
    h("p", { class: "facts" }, start.facts.map((fact) => h("span", null, noteText(fact)))),
    start.notes.length ? h("ul", { class: "card report-notes" }, start.notes.map((note) => h("li", null, noteText(note)))) : null,
    h(
      "section",
      { class: "card", "aria-labelledby": "report-statistics" },
      h("h2", { id: "report-statistics" }, t("report.statistics")),
      h("dl", { class: "report-statistics" }, Object.entries(start.statistics).map(([name, value]) => h("div", null, h("dt", null, t(`report.stat.${name}`)), h("dd", null, statisticText(value))))),
    ),
    h(
      "section",
      { class: "card", "aria-labelledby": "report-documents" },
      h("h2", { id: "report-documents" }, t("view.documents")),
      h("p", { class: "hint" }, countOf(start.documents, "document")),
      h(
        "table",
        { class: "blocks" },
        h("thead", null, h("tr", null, [...OVERVIEW_COLUMNS.map((name) => t(`column.${name}`)), t("report.text")].map((name) => h("th", { scope: "col" }, name)))),
        table,
      ),
      more,
    ),
  );
}

function statisticText(value) {
  if (typeof value === "number") return formatNumber(value);
  return commaList(Object.entries(value).map(([code, count]) => t("report.state_count", { count, status: languageName(code) })));
}

function overviewRow(row) {
  const name = row.title ? `${row.title} (${row.id})` : row.id;
  const isIncluded = row.text >= 0;
  return h(
    "tr",
    null,
    h("td", null, isIncluded ? h("a", { href: viewLink("tree", { document: row.id }) }, name) : name),
    h("td", { "data-label": t("column.chunks") }, formatNumber(row.chunks)),
    h("td", { "data-label": t("column.characters") }, formatNumber(row.length)),
    h("td", { "data-label": t("column.language") }, languageName(row.language)),
    h("td", { "data-label": t("report.text") }, t(isIncluded ? "report.included" : "report.left_out")),
  );
}

function mountAnswers(root, { start }) {
  const items = start.questions.map((question, place) => {
    const body = h("div", { class: "answers" });
    const item = h("details", { class: "report-answer" }, h("summary", null, h("h2", { dir: "auto" }, question)), body);
    item.addEventListener("toggle", async () => {
      if (item.open && !body.childNodes.length) clear(body, renderAnswer(await readBlock(`answer-${place}`), { level: 3, languages: Object.keys(start.statistics.languages) }));
    });
    item.open = place === 0;
    return item;
  });
  clear(root, h("h1", null, t("report.answers")), items.length ? items : h("p", { class: "empty" }, t("report.no_answers")));
}

const REPORT_VIEWS = { overview: mountOverview, answers: mountAnswers, graph: mountGraph, tree: mountTree };

function startReport() {
  fillDocument();
  const start = JSON.parse(document.getElementById("data-start").textContent);
  const source = new ReportSource(start);
  document.getElementById("index-name").textContent = t("report.title", { name: start.name });
  const mounted = new Set();
  const panel = (name) => document.getElementById(`view-${name}`);
  const show = () => {
    const match = /^#\/(\w+)(?:\?(.*))?$/.exec(location.hash);
    const first = start.questions.length ? "answers" : "overview";
    const view = match && Object.hasOwn(REPORT_VIEWS, match[1]) ? match[1] : first;
    const parameters = Object.fromEntries(new URLSearchParams(match?.[2] ?? ""));
    const isNew = panel(view).hidden;
    for (const name of Object.keys(REPORT_VIEWS)) panel(name).hidden = name !== view;
    for (const link of document.querySelectorAll("[data-view]")) {
      if (link.dataset.view === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `${t(REPORT_TITLES[view])} · ${start.name} · E2GraphRAG`;
    if (!mounted.has(view)) {
      mounted.add(view);
      REPORT_VIEWS[view](panel(view), source);
    }
    panel(view).dispatchEvent(new CustomEvent("view-shown", { detail: parameters }));
    if (isNew) announce(t(REPORT_TITLES[view]));
  };
  document.getElementById("theme").addEventListener("change", (event) => {
    if (event.target.value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = event.target.value;
  });
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the hash names the view
    document.getElementById("main").focus();
  });
  addEventListener("hashchange", show);
  show();
}

startReport();
