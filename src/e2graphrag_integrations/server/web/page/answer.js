// One answer: its hits, and how they were found. The retrieval test and the report show it.

import { h } from "./dom.js";
import { excerptOf, isInWindow, marked, termsOf, writtenName } from "./excerpt.js";
import { commaList, countOf, formatFixed, formatNumber, formatPercent, formatSeconds, languageName, listed, rich, t, wordFor } from "./i18n.js";
import { entityLink, viewLink } from "./links.js";
import { figuresOf, isKnownReason, listName, sentenceOf } from "./reasons.js";
import { renderPaths, renderTrace } from "./trace.js";

/**
 * Return an answer as an element.
 *
 * Options: `label` (the letter of the setting), `title` (its name), `languages` (of the documents), `other` (the answer to compare with, and `otherLabel`),
 * `isMarked(node)` (whether the form has the hit as gold), `onGold(node)` (adds a button to each hit), `level`
 * (of the headings of the hits), `reasons` (why documents are missing, if some are), `floor` (the least relevance of
 * a hit that is not gray) and `onFloor(floor)`, `open` (the ids of the nodes whose reasons are shown), `onRead(node)`
 * (adds a button to each hit).
 */
export function renderAnswer(view, options = {}) {
  const terms = termsOf(view);
  const nameOf = (name) => writtenName(name, view);
  const seen = new Set(); // sentences of hits before: neighboring chunks overlap
  const hits = view.nodes.length
    ? h("ol", { class: "hits" }, view.nodes.map((node, index) => renderHit(node, index + 1, view, { ...options, terms, nameOf, seen })))
    : h("p", { class: "empty" }, options.reasons ? t("answer.nothing", { reasons: options.reasons }) : t("answer.no_hits"));
  const answer = h("div", { class: "answer" }, renderSummary(view, { ...options, nameOf }), hits);
  showFloor(answer, options.floor ?? 0);
  return answer;
}

function renderSummary(view, options) {
  const { title, other, otherLabel, nameOf, level = 3 } = options;
  const count = h("strong", { class: "count" }, countOf(view.nodes.length, "hit"));
  let shared = null;
  if (other) {
    const ids = new Set(other.nodes.map((node) => node.node_id));
    shared = h("span", { class: "hint" }, t("list.sentence"), t("answer.shared", { count: view.nodes.filter((node) => ids.has(node.node_id)).length, other: otherLabel }));
  }
  return h(
    "div",
    { class: "answer-head" },
    title ? h(`h${level - 1}`, null, title) : null,
    h("p", { class: "found" }, rich("answer.count", { hits: count, sentence: view.nodes.length ? renderSentence(view) : null }), shared),
    incompleteText(view),
    foreignText(view, options.languages ?? []),
    isOrderUnlikeRelevance(view) ? h("p", { class: "hint order" }, t("found.order")) : null,
    view.freshness && !view.freshness.is_newest ? h("p", { class: "hint" }, freshnessText(view.freshness)) : null,
    renderScores(view.scores),
    h("div", { class: "answer-tools" }, renderFloor(view, options), view.paths?.length ? renderPaths(view.paths, nameOf) : null, renderTrace(view, options)),
  );
}

/** Return a warning if parts of the index could not be asked; an old report does not name them. */
function incompleteText({ missing_shards: names = [] }) {
  if (!names.length) return null;
  return h("p", { class: "warning incomplete", role: "note" }, rich("found.incomplete", { names: h("span", { dir: "auto" }, commaList(names)) }));
}

/** Return a warning if the question is in a language that no document has. */
function foreignText({ foreign_language: language }, languages) {
  if (!language) return null;
  return h("p", { class: "warning foreign", role: "note" }, t("found.foreign", { language: languageName(language), languages: commaList(languages.map(languageName)) }));
}

/** Return whether a hit is clearly more relevant than one before it. */
function isOrderUnlikeRelevance(view) {
  if (isShare(view.relevance_kind)) return false;
  return view.nodes.some((node, place) => place && node.relevance > view.nodes[place - 1].relevance + 0.005);
}

function freshnessText({ max_age: age }) {
  return typeof age === "number" ? t("answer.may_miss_since", { time: formatSeconds(age) }) : t("answer.may_miss");
}

/** Return how the hits were found as one sentence. */
function renderSentence(view) {
  if (view.strategy.startsWith("tree")) return t("found.tree");
  const means = meansOf(view);
  if (view.mode === "global") return t(`found.whole.${means}`);
  if (!view.links.length) return t(`found.no_name.${means}`);
  const named = view.nodes.filter((node) => node.entities.length);
  const place = (link) => view.question.indexOf(link.mention);
  const inOrder = [...view.links].sort((one, other) => place(one) - place(other));
  const found = inOrder.filter((link) => named.some((node) => node.entities.includes(link.entity)));
  const names = [...new Map(found.map((link) => [link.entity, link])).values()];
  if (!names.length) return t(`found.no_hit.${means}`);
  const rest = view.nodes.length - named.length;
  const others = rest ? t(`found.rest.${means}`, { count: rest }) : "";
  const links = listed(names.map((link) => entityLink(link.entity, writtenName(link.entity, view))));
  return rich(names.length > 1 ? "found.names" : "found.name", { names: links, others });
}

/** Return by which means texts were compared with the question, as the end of a key of messages. */
function meansOf(view) {
  if (view.lists?.dense) return view.lists.bm25 ? "both" : "meaning";
  return view.lists?.bm25 ? "words" : "none";
}

/** Return the slider for the least relevance; shares of names or words are not comparable, so these have none. */
function renderFloor(view, { onFloor }) {
  if (!view.nodes.length || isShare(view.relevance_kind)) return null;
  const slider = h("input", { type: "range", min: 0, max: 1, step: 0.01, class: "floor-slider" });
  const box = h(
    "div",
    { class: "floor" },
    h("label", null, t("floor.label"), " ", slider),
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
    answer.querySelector(".floor-value").textContent = formatFixed(Number(floor), 2);
    const hits = [...answer.querySelectorAll(".hit")];
    for (const hit of hits) hit.classList.toggle("is-below", Number(hit.dataset.relevance) < floor);
    const below = hits.filter((hit) => hit.classList.contains("is-below")).length;
    const told = below ? t("floor.below", { count: below }) : "";
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
    known.map(([name, value]) => h("div", null, h("dt", null, wordFor("measure", name)), h("dd", null, formatFixed(value, 2)))),
  );
}

function renderHit(node, rank, view, options) {
  const { other, otherLabel, onGold, level = 3, terms, nameOf, seen, open } = options;
  const isMarked = Boolean(options.isMarked?.(node));
  const isGold = isMarked || node.gold === true;
  const otherRank = other ? other.nodes.findIndex((one) => one.node_id === node.node_id) + 1 : 0;
  const classes = ["hit", isGold ? "is-gold" : "", otherRank ? "is-shared" : ""].join(" ").trim();
  return h(
    "li",
    { class: classes, "data-node": node.node_id, "data-relevance": node.relevance.toFixed(2) },
    h(
      "article",
      { "aria-label": t("hit.label", { rank }), tabindex: "-1" },
      h(
        "div",
        { class: "hit-head" },
        h("span", { class: "rank", "aria-hidden": "true" }, rank),
        h(
          "div",
          { class: "hit-title" },
          h(`h${level}`, { dir: "auto", lang: node.language || null }, h("a", { href: treeLink(node) }, node.title || node.document_id)),
          h("p", { class: "place" }, placeOf(node)),
        ),
        h(
          "div",
          { class: "labels" },
          isGold ? h("span", { class: "label gold" }, t("hit.gold")) : null,
          other ? h("span", { class: otherRank ? "label shared" : "label" }, otherRank ? t("hit.rank_in", { rank: otherRank, other: otherLabel }) : t("hit.not_in", { other: otherLabel })) : null,
        ),
        renderRelevance(node, view.relevance_kind),
      ),
      h("p", { class: "excerpt", dir: "auto", lang: node.language || null }, marked(excerptOf(node, terms, seen), terms)),
      renderAlsoIn(node),
      h(
        "details",
        { class: "why", open: open?.has(node.node_id) },
        h("summary", { "aria-label": t("hit.why.label", { rank }) }, t("hit.why")),
        node.reasons.length ? h("ul", { class: "reasons" }, node.reasons.map((reason) => h("li", { dir: "auto", lang: isKnownReason(reason) ? null : "en" }, sentenceOf(reason, nameOf)))) : null,
        renderEntities(node, nameOf),
        renderText(node, terms),
        h("details", { class: "numbers" }, h("summary", { "aria-label": t("hit.details.label", { rank }) }, t("hit.details")), renderFigures(node, view.relevance_kind), renderMetadata(node)),
        renderActions(node, isMarked, node.level && isGold && !isMarked ? null : onGold, options.onRead),
      ),
    ),
  );
}

function treeLink(node) {
  const best = node.best && !node.level ? `${node.best.start}-${node.best.end}` : "";
  return viewLink("tree", { document: node.document_id, start: node.start, end: node.end, best });
}

/** Return where a hit is: its pages, or else its characters. */
function placeOf(node) {
  const parts = node.title && node.title !== node.document_id ? [node.document_id] : [];
  parts.push(node.pages ? pagesOf(node) : t("hit.characters", { range: charactersOf(node) }));
  if (node.level) parts.push(t("hit.summary"));
  return parts.join(" · ");
}

/** Return the pages of a hit, which the API has as *page 3* or *pages 3, 4*. */
function pagesOf(node) {
  const [, word, pages] = /^(pages?) (.*)$/s.exec(node.pages);
  return t(`hit.${word}`, { pages });
}

function charactersOf(node) {
  return `${formatNumber(node.start)}–${formatNumber(node.end)}`;
}

function isShare(kind) {
  return ["names", "words"].includes(kind); // these are not comparable between questions
}

function renderRelevance(node, kind) {
  const name = t(`relevance.${kind}`);
  return h(
    "span",
    { class: "relevance" },
    h("span", null, `${name} `),
    isShare(kind) ? null : h("meter", { min: 0, max: 1, value: node.relevance, "aria-label": name }),
    h("strong", null, isShare(kind) ? formatPercent(node.relevance) : formatFixed(node.relevance, 2)),
  );
}

/** Return the entire text of a hit. The window that matches best has a line below it. */
function renderText(node, terms) {
  const body = h("p", { dir: "auto", lang: node.language || null });
  node.pieces.forEach((piece, index) => {
    if (index && node.level === 0 && piece.start > node.pieces[index - 1].end) body.append(h("span", { class: "gap" }, " … "));
    const paragraphs = reflowed(piece.text, index > 0 || node.start > 0).split("\n\n");
    const parts = paragraphs.flatMap((part, number) => [number ? h("span", { class: "paragraph-gap" }) : "", ...marked(part, terms)]);
    body.append(...(isInWindow(piece, node) && node.pieces.length > 1 ? [h("span", { class: "window" }, parts)] : parts));
  });
  return h("div", { class: "text", tabindex: "0", role: "group", "aria-label": t("hit.text") }, body);
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
    h("span", null, t("hit.found_by", { list: listName(node.found_by) })),
    kind === "cosine" ? h("span", null, t("hit.cosine")) : null,
    h("span", null, rich("hit.score", { value: h("strong", null, formatNumber(node.score)) })),
    node.factor !== undefined && node.factor !== 1 ? h("span", null, rich("hit.boost", { value: h("strong", null, `× ${formatNumber(node.factor)}`) })) : null,
    figuresOf(node.reasons).map((figure) => h("span", null, figure)),
    ranks.length
      ? h("ul", { class: "ranks", "aria-label": t("hit.ranks") }, ranks.map(([name, rank]) => h("li", null, t("hit.rank_by", { list: listName(name), rank }))))
      : null,
  );
}

function renderEntities(node, nameOf) {
  if (!node.entities.length) return null;
  return h("p", { class: "entities" }, rich("hit.entities", { names: node.entities.map((name) => entityLink(name, nameOf(name))) }));
}

/** Return the other documents with the same text in one line, if there are any; an old report does not name them. */
function renderAlsoIn(node) {
  if (!node.also_in?.length) return null;
  const links = node.also_in.flatMap((id, index) => [index ? t("list.comma") : "", h("a", { href: viewLink("tree", { document: id }), dir: "auto" }, id)]);
  return h("p", { class: "hint also-in" }, rich("hit.also_in", { documents: countOf(node.also_in.length, "document"), names: links }));
}

function renderMetadata(node) {
  const rows = Object.entries(node.metadata ?? {}).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]);
  if (node.tags?.length) rows.push([t("metadata.tags"), commaList(node.tags)]);
  if (node.language) rows.push([t("metadata.language"), node.language]);
  if (node.also_in?.length) rows.push([t("metadata.also_in"), commaList(node.also_in)]);
  rows.push([t("metadata.document"), node.document_id], [t("metadata.characters"), charactersOf(node)]);
  if (node.level) rows.push([t("metadata.level"), node.level]);
  rows.push([t("metadata.node"), node.node_id]);
  return h("dl", { class: "metadata" }, rows.map(([key, value]) => [h("dt", null, key), h("dd", { dir: "auto" }, value)]));
}

function renderActions(node, isMarked, onGold, onRead) {
  return h(
    "div",
    { class: "row actions" },
    onGold
      ? h("button", { type: "button", class: "quiet small", onclick: () => onGold(node) }, t(isMarked ? "hit.unmark_gold" : "hit.mark_gold"))
      : null,
    h("a", { href: treeLink(node) }, t("hit.show_in_tree")),
    onRead ? h("button", { type: "button", class: "quiet small read", onclick: () => onRead(node) }, t("hit.read")) : null,
  );
}
