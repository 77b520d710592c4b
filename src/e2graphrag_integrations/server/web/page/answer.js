// One answer: its hits, and how they were found. The retrieval test and the report show it.

import { copyButton, countOf, formatNumber, formatSeconds, h } from "./dom.js";
import { escaped, excerptOf, isInWindow, marked, termsOf } from "./excerpt.js";

const RELEVANCE_NAMES = { calibrated: "Relevance", cosine: "Relevance", names: "Names found", words: "Words found" };

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
 * (of the headings of the hits), `reasons` (why documents are missing, if some are), `floor` (the least relevance of
 * a hit that is not gray) and `onFloor(floor)`, `open` (the ids of the nodes whose reasons are shown).
 */
export function renderAnswer(view, options = {}) {
  const terms = termsOf(view);
  const hits = view.nodes.length
    ? h("ol", { class: "hits" }, view.nodes.map((node, index) => renderHit(node, index + 1, view, { ...options, terms })))
    : h("p", { class: "empty" }, options.reasons ? `Nothing was found. ${options.reasons}` : "No hits. Try another mode, or a filter that admits more documents.");
  const answer = h("div", { class: "answer" }, renderSummary(view, options), hits);
  showFloor(answer, options.floor ?? 0);
  return answer;
}

function renderSummary(view, options) {
  const { label, other, otherLabel, level = 3 } = options;
  const count = h("strong", { class: "count" }, countOf(view.nodes.length, "hit"));
  let shared = null;
  if (other) {
    const ids = new Set(other.nodes.map((node) => node.node_id));
    shared = h("span", { class: "hint" }, ` ${view.nodes.filter((node) => ids.has(node.node_id)).length} also in ${otherLabel}.`);
  }
  return h(
    "div",
    { class: "answer-head" },
    label ? h(`h${level - 1}`, null, `Setting ${label}`) : null,
    h("p", { class: "found" }, count, ". ", view.nodes.length ? renderSentence(view) : null, shared),
    view.freshness && !view.freshness.is_newest ? h("p", { class: "hint" }, freshnessText(view.freshness)) : null,
    renderScores(view.scores),
    h("div", { class: "answer-tools" }, renderFloor(view, options), view.paths?.length ? renderPaths(view.paths) : null, renderTrace(view, options)),
  );
}

function freshnessText({ max_age: age }) {
  return typeof age === "number" ? `This answer may miss changes of the last ${formatSeconds(age)}.` : "This answer may miss recent changes.";
}

/** Return how the hits were found as one sentence. */
function renderSentence(view) {
  if (view.strategy.startsWith("tree")) return "Found by following the summaries down to the text that is closest to the question.";
  const means = meansOf(view);
  if (view.mode === "global") return `Found in the whole text${means}.`;
  if (!view.links.length) return `No name of the index is in the question, so hits come from the whole text${means}.`;
  const named = view.nodes.filter((node) => node.entities.length);
  const place = (link) => view.question.indexOf(link.mention);
  const inOrder = [...view.links].sort((one, other) => place(one) - place(other));
  const found = inOrder.filter((link) => named.some((node) => node.entities.includes(link.entity)));
  const names = [...new Map(found.map((link) => [link.entity, link])).values()];
  if (!names.length) return `No hit has a name of the question, so hits come from the whole text${means}.`;
  const rest = view.nodes.length - named.length;
  const source = means ? `${rest > 1 ? "come" : "comes"} from the whole text${means}` : `${rest > 1 ? "have" : "has"} names that occur with ${names.length > 1 ? "them" : "it"}`;
  const others = rest ? `; ${countOf(rest, "hit")} without ${names.length > 1 ? "these names" : "this name"} ${source}` : "";
  return [`Found through the ${names.length > 1 ? "names" : "name"} `, listed(names.map((link) => entityLink(link.entity, writtenName(link, view)))), `${others}.`];
}

/** Return by which means texts were compared with the question. */
function meansOf(view) {
  const means = [view.lists?.dense ? "meaning" : "", view.lists?.bm25 ? "words" : ""].filter(Boolean);
  return means.length ? ` by ${means.join(" and ")}` : "";
}

/** Return elements with commas, and *and* before the last one. */
function listed(elements) {
  return elements.map((element, index) => [index ? (index === elements.length - 1 ? " and " : ", ") : "", element]);
}

/** Return a name as the question or the hits write it: the index has it in lower case. */
function writtenName({ mention, entity }, view) {
  if (mention.toLowerCase() === entity.toLowerCase() && mention !== mention.toLowerCase()) return mention;
  const pattern = new RegExp(entity.trim().split(/\s+/).map(escaped).join("\\s+"), "giu");
  const found = view.nodes.flatMap((node) => node.pieces.map((piece) => piece.text).join("").match(pattern) ?? []);
  return (found.find((one) => one !== one.toUpperCase() && one !== one.toLowerCase()) ?? found[0] ?? entity).replace(/\s+/g, " ");
}

function entityLink(name, text = name) {
  return h("a", { class: "entity", href: viewLink("graph", { entity: name }) }, text);
}

/** Return the slider for the least relevance; shares of names or words are not comparable, so these have none. */
function renderFloor(view, { onFloor }) {
  if (!view.nodes.length || isShare(view.relevance_kind)) return null;
  const slider = h("input", { type: "range", min: 0, max: 1, step: 0.01, class: "floor-slider" });
  const box = h(
    "div",
    { class: "floor" },
    h("label", null, "Least relevance ", slider),
    h("span", { class: "floor-value", "aria-hidden": "true" }),
    h("output", { class: "floor-told" }),
  );
  slider.addEventListener("input", () => {
    if (onFloor) onFloor(Number(slider.value));
    else showFloor(box.closest(".answer"), Number(slider.value));
  });
  return box;
}

/** Gray the hits of answers whose relevance is less than a floor, and say how many they are. */
export function showFloor(root, floor) {
  for (const answer of root.matches(".answer") ? [root] : root.querySelectorAll(".answer")) {
    const slider = answer.querySelector(".floor-slider");
    if (!slider) continue;
    slider.value = floor;
    answer.querySelector(".floor-value").textContent = Number(floor).toFixed(2);
    const hits = [...answer.querySelectorAll(".hit")];
    for (const hit of hits) hit.classList.toggle("is-below", Number(hit.dataset.relevance) < floor);
    const below = hits.filter((hit) => hit.classList.contains("is-below")).length;
    const told = below ? `${countOf(below, "hit")} ${below > 1 ? "are" : "is"} below this relevance` : "";
    const output = answer.querySelector(".floor-told");
    if (output.textContent !== told) output.textContent = told;
  }
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
  const { other, otherLabel, onGold, level = 3, terms, open } = options;
  const isMarked = Boolean(options.isMarked?.(node));
  const isGold = isMarked || node.gold === true;
  const otherRank = other ? other.nodes.findIndex((one) => one.node_id === node.node_id) + 1 : 0;
  const classes = ["hit", isGold ? "is-gold" : "", otherRank ? "is-shared" : ""].join(" ").trim();
  return h(
    "li",
    { class: classes, "data-node": node.node_id, "data-relevance": node.relevance.toFixed(2) },
    h(
      "article",
      { "aria-label": `Hit ${rank}`, tabindex: "-1" },
      h(
        "div",
        { class: "hit-head" },
        h("span", { class: "rank", "aria-hidden": "true" }, rank),
        h(
          "div",
          { class: "hit-title" },
          h(`h${level}`, { dir: "auto" }, h("a", { href: treeLink(node) }, node.title || node.document_id)),
          h("p", { class: "place" }, placeOf(node)),
        ),
        h(
          "div",
          { class: "labels" },
          isGold ? h("span", { class: "label gold" }, "Gold") : null,
          other ? h("span", { class: otherRank ? "label shared" : "label" }, otherRank ? `Rank ${otherRank} in ${otherLabel}` : `Not in ${otherLabel}`) : null,
        ),
        renderRelevance(node, view.relevance_kind),
      ),
      h("p", { class: "excerpt", dir: "auto" }, marked(excerptOf(node, terms), terms)),
      renderAlsoIn(node),
      h(
        "details",
        { class: "why", open: open?.has(node.node_id) },
        h("summary", { "aria-label": `Why? Hit ${rank}` }, "Why?"),
        renderFigures(node, view.relevance_kind),
        node.reasons.length ? h("ul", { class: "reasons" }, node.reasons.map((reason) => h("li", null, reason))) : null,
        renderEntities(node),
        renderText(node, terms),
        renderMetadata(node),
        renderActions(node, isMarked, node.level && isGold && !isMarked ? null : onGold),
      ),
    ),
  );
}

function treeLink(node) {
  return viewLink("tree", { document: node.document_id, start: node.start, end: node.end });
}

/** Return where a hit is: its pages, or else its characters. */
function placeOf(node) {
  const parts = node.title && node.title !== node.document_id ? [node.document_id] : [];
  parts.push(node.pages || `characters ${charactersOf(node)}`);
  if (node.level) parts.push("summary");
  return parts.join(" · ");
}

function charactersOf(node) {
  return `${formatNumber(node.start)}–${formatNumber(node.end)}`;
}

function isShare(kind) {
  return ["names", "words"].includes(kind); // these are not comparable between questions
}

function renderRelevance(node, kind) {
  const name = RELEVANCE_NAMES[kind] ?? RELEVANCE_NAMES.calibrated;
  return h(
    "span",
    { class: "relevance" },
    h("span", null, `${name} `),
    isShare(kind) ? null : h("meter", { min: 0, max: 1, value: node.relevance, "aria-label": name }),
    h("strong", null, isShare(kind) ? `${Math.round(100 * node.relevance)}%` : node.relevance.toFixed(2)),
  );
}

/** Return the entire text of a hit. The window that matches best has a line below it. */
function renderText(node, terms) {
  const body = h("p", { dir: "auto" });
  node.pieces.forEach((piece, index) => {
    if (index && node.level === 0 && piece.start > node.pieces[index - 1].end) body.append(h("span", { class: "gap" }, " … "));
    const paragraphs = reflowed(piece.text, index > 0 || node.start > 0).split("\n\n");
    const parts = paragraphs.flatMap((part, number) => [number ? h("span", { class: "paragraph-gap" }) : "", ...marked(part, terms)]);
    body.append(...(isInWindow(piece, node) && node.pieces.length > 1 ? [h("span", { class: "window" }, parts)] : parts));
  });
  return h("div", { class: "text", tabindex: "0", role: "group", "aria-label": "Entire text" }, body);
}

/** Join the lines of a text that was wrapped at a fixed width; short lines, as in lists and verses, stay. */
export function reflowed(text, isContinued = false) {
  const joined = isContinued ? text.replace(/^([^\n]+)\n(?=\S)/, "$1 ") : text;
  return joined.replace(/([^\n]{45,})\n(?=\S)/g, "$1 ").replace(/\n\s*\n\s*/g, "\n\n");
}

function renderFigures(node, kind) {
  const ranks = Object.entries(node.ranks ?? {});
  return h(
    "div",
    { class: "figures" },
    h("span", null, `Found by ${node.found_by.replaceAll("_", " ")}`),
    kind === "cosine" ? h("span", null, "The relevance is the cosine of the vectors") : null,
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
    node.entities.map((name) => entityLink(name)),
  );
}

/** Return the other documents with the same text in one line, if there are any; an old report does not name them. */
function renderAlsoIn(node) {
  if (!node.also_in?.length) return null;
  const links = node.also_in.flatMap((id, index) => [index ? ", " : "", h("a", { href: viewLink("tree", { document: id }) }, id)]);
  return h("p", { class: "hint also-in" }, `Also in ${countOf(node.also_in.length, "document")}: `, links);
}

function renderMetadata(node) {
  const rows = Object.entries(node.metadata ?? {}).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]);
  if (node.tags?.length) rows.push(["tags", node.tags.join(", ")]);
  if (node.language) rows.push(["language", node.language]);
  if (node.also_in?.length) rows.push(["also in", node.also_in.join(", ")]);
  rows.push(["document", node.document_id], ["characters", charactersOf(node)]);
  if (node.level) rows.push(["level of the summary", node.level]);
  rows.push(["node", node.node_id]);
  return h("dl", { class: "metadata" }, rows.map(([key, value]) => [h("dt", null, key), h("dd", { dir: "auto" }, value)]));
}

function renderActions(node, isMarked, onGold) {
  return h(
    "div",
    { class: "row actions" },
    onGold
      ? h("button", { type: "button", class: "quiet small", onclick: () => onGold(node) }, isMarked ? "Gold ✓ (undo)" : "Mark as gold")
      : null,
    h("a", { href: treeLink(node) }, "Show in the tree"),
  );
}

/** Return everything technical about an answer, closed. */
function renderTrace(view, { label }) {
  const cuts = Object.entries(view.cuts ?? {}).filter(([, count]) => count);
  const timings = Object.entries(view.timings ?? {});
  const seconds = timings.reduce((sum, [, value]) => sum + value, 0);
  return h(
    "details",
    { class: "trace" },
    h("summary", { "aria-label": label ? `Details of setting ${label}` : null }, "Details"),
    h(
      "p",
      { class: "facts" },
      h("span", { class: `route route-${view.route}` }, `Route: ${view.route}`),
      h("span", null, `${formatNumber(view.tokens)} tokens`),
      h("span", null, formatSeconds(seconds)),
    ),
    h("p", null, view.reason),
    renderLinks(view),
    view.paths && !view.paths.length && view.links.length > 1 ? h("p", { class: "hint" }, "No path joins the names of the question.") : null,
    renderLists(view),
    cuts.length ? h("p", { class: "cuts" }, "Left out: ", cuts.map(([limit, count]) => `${formatNumber(count)} by ${limit.replaceAll("_", " ")}`).join(", ")) : null,
    timings.length
      ? h("details", null, h("summary", null, "Timings"), h("dl", { class: "timings" }, timings.map(([step, one]) => [h("dt", null, step), h("dd", null, formatSeconds(one))])))
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
    view.links.map((link) => entityLink(link.entity)),
    view.unlinked.length ? ` not in the index: ${view.unlinked.join(", ")}` : null,
  );
}

function renderPaths(paths) {
  return h(
    "details",
    { class: "path-box" },
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
