// How an answer was found: the route, the steps, the ranks of each search, the times, and the context for a prompt.

import { copyButton, h } from "./dom.js";
import { commaList, countOf, formatSeconds, rich, t, wordFor } from "./i18n.js";
import { entityLink, viewLink } from "./links.js";
import { isKnownReason, listName, sentenceOf } from "./reasons.js";

/** Return everything technical about an answer, closed. */
export function renderTrace(view, { label, nameOf }) {
  const cuts = Object.entries(view.cuts ?? {}).filter(([, count]) => count);
  const timings = Object.entries(view.timings ?? {});
  const seconds = timings.reduce((sum, [, value]) => sum + value, 0);
  return h(
    "details",
    { class: "trace" },
    h("summary", { "aria-label": label ? t("trace.title_of", { name: label }) : null }, t("trace.title")),
    h(
      "p",
      { class: "facts" },
      h("span", { class: `route route-${view.route}` }, t(`route.${view.route}`)),
      h("span", null, t("trace.tokens", { count: view.tokens })),
      h("span", null, formatSeconds(seconds)),
    ),
    h("p", { lang: isKnownReason(view.reason) ? null : "en" }, sentenceOf(view.reason, nameOf)),
    renderLinks(view, nameOf),
    view.paths && !view.paths.length && view.links.length > 1 ? h("p", { class: "hint" }, t("trace.no_path")) : null,
    renderLists(view),
    cuts.length ? h("p", { class: "cuts" }, t("trace.left_out", { counts: commaList(cuts.map(([limit, count]) => t("trace.cut", { count, limit: wordFor("cut", limit) }))) })) : null,
    timings.length
      ? h("details", null, h("summary", null, t("trace.timings")), h("dl", { class: "timings" }, timings.map(([step, one]) => [h("dt", null, wordFor("step", step)), h("dd", null, formatSeconds(one))])))
      : null,
    renderSteps(view, nameOf),
    h(
      "details",
      null,
      h("summary", null, t("trace.context_with", { count: view.tokens })),
      copyButton(() => view.context, t("trace.copy_context")),
      h("pre", { tabindex: "0", dir: "auto", "aria-label": t("trace.context") }, view.context),
    ),
  );
}

/** Return the steps of the search that the page shows nowhere else. */
function renderSteps(view, nameOf) {
  const steps = view.steps.filter(isKnownReason);
  return h(
    "details",
    null,
    h("summary", null, t("trace.explain")),
    steps.length ? h("ul", { class: "reasons", dir: "auto" }, steps.map((step) => h("li", null, sentenceOf(step, nameOf)))) : null,
    copyButton(() => view.explain, t("trace.copy_explain")),
  );
}

function renderLinks(view, nameOf) {
  if (!view.links.length && !view.unlinked.length) return null;
  return h(
    "p",
    null,
    rich("trace.names", { names: view.links.map((link) => entityLink(link.entity, nameOf(link.entity))) }),
    view.unlinked.length ? [" ", rich("trace.unlinked", { names: h("span", { dir: "auto" }, commaList(view.unlinked)) })] : null,
  );
}

/** Return the paths between the names of a question, closed. */
export function renderPaths(paths, nameOf) {
  return h(
    "details",
    { class: "path-box" },
    h("summary", null, t("trace.paths")),
    h(
      "ol",
      { class: "paths" },
      paths.map((path) =>
        h(
          "li",
          null,
          h("a", { href: viewLink("graph", { source: path.entities[0], target: path.entities.at(-1) }), dir: "auto" }, path.entities.map(nameOf).join(" – ")),
          h("ul", null, path.hops.map((hop) => h("li", { dir: "auto" }, hop.text, " ", h("span", { class: "hint" }, hop.document_id)))),
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
    h("summary", null, t("trace.lists", { count: lists.length })),
    lists.map(([name, list]) =>
      h(
        "details",
        null,
        h("summary", null, t("trace.list", { name: listName(name), nodes: countOf(list.size, "node") })),
        h(
          "ol",
          null,
          list.top.map((one) =>
            h(
              "li",
              { value: one.rank },
              places.has(one.node_id) ? h("strong", null, t("trace.hit", { rank: places.get(one.node_id) })) : h("code", null, one.node_id.slice(0, 8)),
              " ",
              commaList(Object.entries(one.figures).map(([figure, value]) => t("trace.figure", { name: wordFor("figure", figure), value }))),
            ),
          ),
        ),
      ),
    ),
  );
}
