// What stands behind a drawing of the graph: sentences of edges, mentions of an entity, and paths.

import { clear, errorBox, h } from "./dom.js";
import { formatNumber, t } from "./i18n.js";
import { viewLink } from "./links.js";

const LISTED_EDGES = 12;
const LISTED_MENTIONS = 8;

/** Return the edges of a drawing, each with its sentences on demand; `labelOf(name)` returns a name as the texts have it. */
export function renderEdges(edges, center, source, labelOf) {
  const own = edges.filter((edge) => edge.source === center || edge.target === center);
  const others = edges.filter((edge) => !own.includes(edge));
  const ordered = [...own, ...others];
  const list = h("ul", { class: "graph-edges" });
  const more = h("button", { type: "button", class: "quiet small" }, t("graph.more_edges"));
  let count = 0;
  const extend = () => {
    for (const edge of ordered.slice(count, count + LISTED_EDGES)) list.append(h("li", null, renderEdge(edge, source, labelOf)));
    count = Math.min(count + LISTED_EDGES, ordered.length);
    more.hidden = count >= ordered.length;
  };
  more.addEventListener("click", extend);
  extend();
  return h(
    "section",
    { class: "card", "aria-labelledby": "graph-edges" },
    h("h3", { id: "graph-edges" }, t("graph.edges")),
    h("p", { class: "hint" }, t("graph.edges.hint", { count: ordered.length })),
    list,
    more,
  );
}

function renderEdge(edge, source, labelOf) {
  const body = h("div");
  const item = h(
    "details",
    null,
    h("summary", null, h("span", { dir: "auto" }, `${labelOf(edge.source)} – ${labelOf(edge.target)}`), " ", h("span", { class: "hint" }, t("graph.weight", { value: edge.weight }))),
    body,
  );
  item.addEventListener("toggle", async () => {
    if (!item.open || body.childNodes.length) return;
    clear(body, h("p", { class: "hint" }, t("told.loading")));
    try {
      const found = await source.edge(edge.source, edge.target);
      const items = found.sentences.map((one) => h("li", { dir: "auto" }, one.text, " ", placeLink(one.document_id, one.start, one.end)));
      clear(body, items.length ? h("ul", { class: "sentences" }, items) : h("p", { class: "hint" }, t("graph.no_sentence")));
      if (found.has_more) body.append(h("p", { class: "hint" }, t("graph.more_sentences")));
    } catch (error) {
      clear(body, errorBox(error));
    }
  });
  return item;
}

/** Return the sentences that mention an entity, and its documents. */
export function renderMentions(details) {
  const { info, mentions, documents } = details;
  const list = h("ul", { class: "sentences" });
  const more = h("button", { type: "button", class: "quiet small" }, t("graph.more_mentions"));
  let count = 0;
  const extend = () => {
    for (const one of mentions.slice(count, count + LISTED_MENTIONS)) {
      const letters = Array.from(one.sentence); // offsets count code points
      const [start, end] = [one.start - one.sentence_start, one.end - one.sentence_start];
      list.append(
        h(
          "li",
          { dir: "auto" },
          letters.slice(0, start).join(""),
          h("mark", null, letters.slice(start, end).join("")),
          letters.slice(end).join(""),
          " ",
          placeLink(one.document_id, one.sentence_start, one.sentence_end),
        ),
      );
    }
    count = Math.min(count + LISTED_MENTIONS, mentions.length);
    more.hidden = count >= mentions.length;
  };
  more.addEventListener("click", extend);
  extend();
  const shown = documents.slice(0, LISTED_MENTIONS);
  return h(
    "section",
    { class: "card", "aria-labelledby": "graph-mentions" },
    h("h3", { id: "graph-mentions" }, t("graph.mentions")),
    mentions.length ? list : h("p", { class: "hint" }, t("graph.no_mention")),
    more,
    h("h3", null, t("graph.documents")),
    h("ul", null, shown.map((id) => h("li", null, h("a", { href: viewLink("tree", { document: id }), dir: "auto" }, id)))),
    info.documents > shown.length ? h("p", { class: "hint" }, t("graph.more_documents", { count: info.documents - shown.length })) : null,
  );
}

/** Return paths with their sentences; `highlight(path)` marks one of them in the drawing. */
export function renderPathList(paths, labelOf, highlight) {
  if (!paths.length) return null;
  const section = h(
    "section",
    { class: "card", "aria-labelledby": "graph-paths" },
    h("h3", { id: "graph-paths" }, t("graph.path_list")),
    h(
      "ol",
      { class: "graph-paths" },
      paths.map((path, index) => {
        const button = h("button", { type: "button", class: "quiet small", "aria-pressed": String(index === 0) }, t("graph.highlight"));
        button.addEventListener("click", () => {
          for (const other of section.querySelectorAll("[aria-pressed]")) other.setAttribute("aria-pressed", String(other === button));
          highlight(path);
        });
        return h(
          "li",
          null,
          h("strong", { dir: "auto" }, path.entities.map((name) => labelOf(name)).join(" – ")),
          " ",
          button,
          h("ul", { class: "sentences" }, path.hops.map((hop) => h("li", { dir: "auto" }, hop.text, " ", placeLink(hop.document_id, hop.start, hop.end)))),
        );
      }),
    ),
  );
  return section;
}

function placeLink(documentId, start, end) {
  const place = t("graph.place", { document: documentId, range: `${formatNumber(start)}–${formatNumber(end)}` });
  return h("a", { class: "hint", href: viewLink("tree", { document: documentId, start, end }) }, place);
}
