// One answer: its hits, and how they were found. The retrieval test and the report show it.

import { copyButton, countOf, formatNumber, formatSeconds, h } from "./dom.js";

const SHOWN_AROUND = 280; // characters before and after the best window, until the reader asks for all

const RELEVANCE_NAMES = { calibrated: "Relevance", cosine: "Relevance (cosine)", names: "Names found", words: "Words found" };

const MEASURES = { recall: "Recall", ndcg: "nDCG", span_recall: "Span recall", answer_in_context: "Answer in context" };

/** Return the name of a measure as the page shows it. */
export function measureName(measure) {
  return MEASURES[measure] ?? measure.replaceAll("_", " ");
}

/** Return `#/graph?entity=NAME` and the like. */
export function viewLink(view, parameters) {
  return `#/${view}?${new URLSearchParams(parameters)}`;
}

/**
 * Return an answer as an element.
 *
 * Options: `label` (the name of the setting), `other` (the answer to compare with, and `otherLabel`),
 * `isMarked(node)` (whether the form has the hit as gold), `onGold(node)` (adds a button to each hit), `level`
 * (of the headings of the hits), `reasons` (why documents are missing, if some are).
 */
export function renderAnswer(view, options = {}) {
  const hits = view.nodes.length
    ? h("ol", { class: "hits" }, view.nodes.map((node, index) => renderHit(node, index + 1, view, options)))
    : h("p", { class: "empty" }, options.reasons ? `Nothing was found. ${options.reasons}` : "No hits. Try another mode, or a filter that admits more documents.");
  return h(
    "div",
    { class: "answer" },
    h("div", { class: "answer-main" }, renderSummary(view, options), hits),
    renderTrace(view, options),
  );
}

function renderSummary(view, { label, other, otherLabel }) {
  const seconds = Object.values(view.timings ?? {}).reduce((sum, value) => sum + value, 0);
  const parts = [
    countOf(view.nodes.length, "hit"),
    `${formatNumber(view.tokens)} tokens`,
    formatSeconds(seconds),
  ];
  if (other) {
    const ids = new Set(other.nodes.map((node) => node.node_id));
    const shared = view.nodes.filter((node) => ids.has(node.node_id)).length;
    parts.push(`${shared} also in ${otherLabel}`);
  }
  return h(
    "div",
    { class: "answer-head" },
    label ? h("h2", null, `Setting ${label}`) : null,
    h("p", { class: "facts" }, h("span", { class: `route route-${view.route}` }, `Route: ${view.route}`), parts.map((part) => h("span", null, part))),
    renderScores(view.scores),
  );
}

function renderScores(scores) {
  const known = Object.entries(scores ?? {}).filter(([, value]) => typeof value === "number");
  if (!known.length) return null;
  return h(
    "dl",
    { class: "scores" },
    known.map(([name, value]) => h("div", null, h("dt", null, measureName(name)), h("dd", null, value.toFixed(2)))),
  );
}

function renderHit(node, rank, view, options) {
  const { other, otherLabel, onGold, level = 3 } = options;
  const isMarked = Boolean(options.isMarked?.(node));
  const isGold = isMarked || node.gold === true;
  const otherRank = other ? other.nodes.findIndex((one) => one.node_id === node.node_id) + 1 : 0;
  const classes = ["hit", isGold ? "is-gold" : "", otherRank ? "is-shared" : ""].join(" ").trim();
  return h(
    "li",
    { class: classes, "data-node": node.node_id },
    h(
      "article",
      { "aria-label": `Hit ${rank}`, tabindex: "-1" },
      h(
        "div",
        { class: "hit-head" },
        h("span", { class: "rank", "aria-hidden": "true" }, rank),
        h("div", { class: "hit-title" }, h(`h${level}`, null, node.title || node.document_id), h("p", { class: "place" }, placeOf(node))),
        h(
          "div",
          { class: "labels" },
          isGold ? h("span", { class: "label gold" }, "Gold") : null,
          other ? h("span", { class: otherRank ? "label shared" : "label" }, otherRank ? `Rank ${otherRank} in ${otherLabel}` : `Not in ${otherLabel}`) : null,
          h("span", { class: "label" }, `found by ${node.found_by.replaceAll("_", " ")}`),
        ),
      ),
      renderFigures(node, view.relevance_kind),
      renderText(node),
      node.reasons.length ? h("ul", { class: "reasons" }, node.reasons.map((reason) => h("li", null, reason))) : null,
      renderEntities(node),
      renderAlsoIn(node),
      renderMetadata(node),
      renderActions(node, isMarked, node.level && isGold && !isMarked ? null : onGold),
    ),
  );
}

function placeOf(node) {
  const parts = node.title ? [node.document_id] : [];
  if (node.pages) parts.push(node.pages);
  parts.push(`characters ${formatNumber(node.start)}–${formatNumber(node.end)}`);
  if (node.level) parts.push(`summary, level ${node.level}`);
  return parts.join(" · ");
}

/** Return the pieces of a text with the best window marked; a long text is shortened around it. */
function renderText(node) {
  const box = h("div", { class: "text" });
  const best = node.best;
  const isBest = (piece) => best !== null && best !== undefined && piece.start >= best.start && piece.end <= best.end && piece.end > piece.start;
  const marks = node.pieces.map(isBest);
  const isShortened = node.pieces.some((piece, index) => !marks[index] && piece.text.length > 1.5 * SHOWN_AROUND);
  let isOpen = false;
  const body = h("p", { dir: "auto" });
  const draw = () => {
    body.replaceChildren();
    const first = marks.indexOf(true);
    node.pieces.forEach((piece, index) => {
      if (index && node.level === 0 && piece.start > node.pieces[index - 1].end) body.append(h("span", { class: "gap" }, " … "));
      const all = reflowed(piece.text, index > 0 || node.start > 0);
      const text = isOpen || marks[index] ? all : shortened(all, index < first);
      const parts = text.split("\n\n").flatMap((part, number) => (number ? [h("span", { class: "paragraph-gap" }), part] : [part]));
      body.append(...(marks[index] ? [h("mark", null, parts)] : parts));
    });
  };
  draw();
  box.append(body);
  if (isShortened) {
    const button = h("button", { type: "button", class: "link", "aria-expanded": "false" }, "Show the entire text");
    button.addEventListener("click", () => {
      isOpen = !isOpen;
      draw();
      button.setAttribute("aria-expanded", String(isOpen));
      button.textContent = isOpen ? "Show less" : "Show the entire text";
    });
    box.append(button);
  }
  return box;
}

/** Join the lines of a text that was wrapped at a fixed width; short lines, as in lists and verses, stay. */
export function reflowed(text, isContinued = false) {
  const joined = isContinued ? text.replace(/^([^\n]+)\n(?=\S)/, "$1 ") : text;
  return joined.replace(/([^\n]{45,})\n(?=\S)/g, "$1 ").replace(/\n\s*\n\s*/g, "\n\n");
}

/** Return the part of a text that is next to the best window: its end if it is before it. */
function shortened(text, isBefore) {
  if (text.length <= 1.5 * SHOWN_AROUND) return text;
  const characters = Array.from(text);
  if (isBefore) return `… ${characters.slice(-SHOWN_AROUND).join("").replace(/^\S*\s/, "")}`;
  return `${characters.slice(0, SHOWN_AROUND).join("").replace(/\s\S*$/, "")} …`;
}

function renderFigures(node, kind) {
  const isFraction = ["names", "words"].includes(kind); // these are not comparable between questions
  const name = RELEVANCE_NAMES[kind] ?? RELEVANCE_NAMES.calibrated;
  const ranks = Object.entries(node.ranks ?? {});
  return h(
    "div",
    { class: "figures" },
    h(
      "span",
      { class: "relevance" },
      h("span", null, `${name} `),
      isFraction ? null : h("meter", { min: 0, max: 1, value: node.relevance, "aria-label": name }),
      h("strong", null, isFraction ? `${Math.round(100 * node.relevance)}%` : node.relevance.toFixed(2)),
    ),
    h("span", null, "Score ", h("strong", null, formatNumber(node.score))),
    node.factor !== undefined && node.factor !== 1 ? h("span", null, "Boost ", h("strong", null, `× ${formatNumber(node.factor)}`)) : null,
    ranks.length
      ? h("ul", { class: "ranks", "aria-label": "Ranks in the lists" }, ranks.map(([name, rank]) => h("li", null, `${name.replaceAll("_", " ")} #${rank}`)))
      : null,
  );
}

function renderEntities(node) {
  if (!node.entities.length) return null;
  return h(
    "p",
    { class: "entities" },
    "Entities: ",
    node.entities.map((name) => h("a", { class: "entity", href: viewLink("graph", { entity: name }) }, name)),
  );
}

/** Return the other documents with the same text, if there are any; an old report does not name them. */
function renderAlsoIn(node) {
  if (!node.also_in?.length) return null;
  const links = node.also_in.flatMap((id, index) => [index ? ", " : "", h("a", { href: viewLink("tree", { document: id }) }, id)]);
  return h("p", { class: "hint also-in" }, "Also in ", links);
}

function renderMetadata(node) {
  const rows = Object.entries(node.metadata ?? {}).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]);
  if (node.tags?.length) rows.push(["tags", node.tags.join(", ")]);
  if (node.language) rows.push(["language", node.language]);
  rows.push(["node", node.node_id]);
  return h(
    "details",
    { class: "metadata" },
    h("summary", null, "Metadata"),
    h("dl", null, rows.map(([key, value]) => [h("dt", null, key), h("dd", null, value)])),
  );
}

function renderActions(node, isMarked, onGold) {
  const tree = viewLink("tree", { document: node.document_id, start: node.start, end: node.end });
  return h(
    "div",
    { class: "row actions" },
    onGold
      ? h("button", { type: "button", class: "quiet small", onclick: () => onGold(node) }, isMarked ? "Gold ✓ (undo)" : "Mark as gold")
      : null,
    h("a", { href: tree }, "Show in the tree"),
  );
}

function renderTrace(view, { label, level = 3 }) {
  const cuts = Object.entries(view.cuts ?? {}).filter(([, count]) => count);
  const timings = Object.entries(view.timings ?? {});
  return h(
    "aside",
    { class: "trace", "aria-label": `How the hits${label ? ` of ${label}` : ""} were found` },
    h(`h${level}`, null, "How the hits were found"),
    h("p", null, view.reason),
    renderLinks(view),
    view.paths?.length ? renderPaths(view.paths) : null,
    view.paths && !view.paths.length && view.links.length > 1 ? h("p", { class: "hint" }, "No path joins the names of the question.") : null,
    renderLists(view),
    cuts.length ? h("p", { class: "cuts" }, "Left out: ", cuts.map(([limit, count]) => `${formatNumber(count)} by ${limit.replaceAll("_", " ")}`).join(", ")) : null,
    view.freshness && !view.freshness.is_newest ? h("p", { class: "hint" }, `This answer may miss changes of the last ${formatSeconds(view.freshness.max_age)}.`) : null,
    timings.length
      ? h("details", null, h("summary", null, "Timings"), h("dl", { class: "timings" }, timings.map(([step, seconds]) => [h("dt", null, step), h("dd", null, formatSeconds(seconds))])))
      : null,
    h("details", null, h("summary", null, "Explanation"), h("pre", { tabindex: "0", "aria-label": "Explanation" }, view.explain)),
    h(
      "details",
      null,
      h("summary", null, `Context for a prompt (${formatNumber(view.tokens)} tokens)`),
      copyButton(() => view.context, "Copy the context"),
      h("pre", { tabindex: "0", "aria-label": "Context for a prompt" }, view.context),
    ),
  );
}

function renderLinks(view) {
  if (!view.links.length && !view.unlinked.length) return null;
  return h(
    "p",
    null,
    "Names: ",
    view.links.map((link) => h("a", { class: "entity", href: viewLink("graph", { entity: link.entity }) }, link.entity)),
    view.unlinked.length ? ` not in the index: ${view.unlinked.join(", ")}` : null,
  );
}

function renderPaths(paths) {
  return h(
    "details",
    { open: true },
    h("summary", null, "Paths between the names"),
    h(
      "ol",
      { class: "paths" },
      paths.map((path) =>
        h(
          "li",
          null,
          h("a", { href: viewLink("graph", { source: path.entities[0], target: path.entities.at(-1) }) }, path.entities.join(" – ")),
          h("ul", null, path.hops.map((hop) => h("li", null, hop.text, " ", h("span", { class: "hint" }, hop.document_id)))),
        ),
      ),
    ),
  );
}

function renderLists(view) {
  const lists = Object.entries(view.lists ?? {});
  if (!lists.length) return null;
  const places = new Map(view.nodes.map((node, index) => [node.node_id, index + 1]));
  return h(
    "details",
    { class: "lists" },
    h("summary", null, `Ranked lists (${lists.length})`),
    lists.map(([name, list]) =>
      h(
        "details",
        null,
        h("summary", null, `${name.replaceAll("_", " ")}: ${countOf(list.size, "node")}`),
        h(
          "ol",
          null,
          list.top.map((one) =>
            h(
              "li",
              { value: one.rank },
              places.has(one.node_id) ? h("strong", null, `hit ${places.get(one.node_id)}`) : h("code", null, one.node_id.slice(0, 8)),
              ` ${Object.entries(one.figures).map(([figure, value]) => `${figure.replaceAll("_", " ")} ${formatNumber(value)}`).join(", ")}`,
            ),
          ),
        ),
      ),
    ),
  );
}
