// The drawing of the graph.

import { clear, h, themeColor } from "./dom.js";
import { typeColor, typeLegend, typeStyles } from "./entity_types.js";
import { countOf, formatNumber, t } from "./i18n.js";
import { forceLayout, pathPlaces, ringPlaces } from "./layouts.js";

const LABEL_LENGTH = 32;
const SMALLEST_LABEL = 11.5; // pixels
const DRAWN_EDGES = 150; // apart from those of the entity itself; more would be a blur
const [SMALLEST_NODE, LARGEST_NODE] = [10, 34]; // pixels
const LARGEST_FIT = 1.2;

/** The drawing. Positions depend only on the order of the nodes and the size, so equal graphs look equal. */
export class GraphDrawing {
  constructor(onOpen, onExpand) {
    this.onOpen = onOpen;
    this.onExpand = onExpand;
    this.graph = null;
    this.note = h("span", { class: "graph-note" });
    this.legend = h("ul", { class: "graph-legend" });
    this.canvas = h("div", { class: "graph-canvas", role: "img", "aria-label": t("drawing.label") });
    this.element = h(
      "figure",
      { class: "graph-figure" },
      this.canvas,
      h(
        "figcaption",
        { class: "hint" },
        this.legend,
        t("drawing.hint"),
        " ",
        this.note,
      ),
    );
  }

  buttons() {
    const button = (text, label, action) => h("button", { type: "button", class: "quiet small", "aria-label": label, onclick: action }, text);
    return [
      button("+", t("drawing.zoom_in"), () => this.zoom(1.3)),
      button("−", t("drawing.zoom_out"), () => this.zoom(1 / 1.3)),
      button(t("drawing.fit"), t("drawing.fit.label"), () => this.refresh()),
    ];
  }

  zoom(factor) {
    if (!this.graph) return;
    const middle = { x: this.graph.width() / 2, y: this.graph.height() / 2 };
    this.graph.zoom({ level: this.graph.zoom() * factor, renderedPosition: middle });
  }

  /** Draw nodes and edges in a layout, `distance` or `force`; paths have a layout of their own. */
  async draw(nodes, edges, { center, paths, layout }) {
    const graph = await this.open();
    graph.resize();
    const size = { width: graph.width() || 900, height: graph.height() || 500 };
    const places = paths.length ? pathPlaces(paths) : ringPlaces(nodes, edges, center, size);
    const isOwn = (edge) => edge.source === center || edge.target === center;
    const others = edges.filter((edge) => !isOwn(edge)).sort((one, other) => other.weight - one.weight);
    const drawn = [...others.slice(0, DRAWN_EDGES), ...edges.filter(isOwn)];
    this.note.textContent = drawn.length < edges.length ? t("drawing.heaviest", { count: DRAWN_EDGES }) : "";
    const heaviest = drawn.reduce((most, edge) => Math.max(most, edge.weight), 1e-9);
    const mostMentions = Math.max(1, ...nodes.map((node) => node.mentions));
    clear(this.legend, renderLegend(nodes, center, drawn.length > 0));
    graph.elements().remove();
    graph.add(
      nodes.map(({ name, label, mentions, type }) => ({
        group: "nodes",
        data: { id: name, label: shortLabel(label), size: SMALLEST_NODE + (LARGEST_NODE - SMALLEST_NODE) * Math.sqrt(mentions / mostMentions) },
        position: places.get(name),
        classes: [name === center && "center", `type-${typeColor(type)}`].filter(Boolean),
      })),
    );
    graph.add(
      drawn.map((edge) => ({
        group: "edges",
        data: { id: `edge\n${edgeKey(edge)}`, source: edge.source, target: edge.target, weight: edge.weight, width: 1 + (4 * edge.weight) / heaviest },
        classes: isOwn(edge) ? "own" : "",
      })),
    );
    if (layout === "force" && !paths.length && drawn.length) graph.layout(forceLayout(heaviest)).run();
    const subject = nodes.find((node) => node.name === center)?.label || t(paths.length ? "drawing.of_paths" : "drawing.of_nothing");
    this.canvas.setAttribute("aria-label", t("drawing.label_of", { subject, entities: countOf(nodes.length, "entity"), edges: countOf(drawn.length, "edge") }));
    if (paths.length) this.highlight(paths[0]);
    this.refresh();
  }

  /** Mark the entities and edges of a path. */
  highlight(path) {
    if (!this.graph) return;
    this.graph.elements().removeClass("on-path");
    for (const name of path.entities) this.graph.getElementById(name).addClass("on-path");
    for (const hop of path.hops) this.graph.getElementById(`edge\n${edgeKey(hop)}`).addClass("on-path");
  }

  /** Fit the drawing into its place, whose size may have changed. */
  refresh() {
    if (!this.graph) return;
    this.graph.resize();
    this.graph.fit(undefined, 24);
    if (this.graph.zoom() > LARGEST_FIT) {
      this.graph.zoom(LARGEST_FIT);
      this.graph.center();
    }
    this.graph.nodes().style("font-size", Math.max(SMALLEST_LABEL, SMALLEST_LABEL / this.graph.zoom()));
  }

  async open() {
    if (this.graph) return this.graph;
    if (!globalThis.cytoscape) await import("./vendor/cytoscape.min.js");
    if (this.graph) return this.graph; // another call was faster
    const isTouch = matchMedia("(pointer: coarse)").matches;
    this.graph = globalThis.cytoscape({
      container: this.canvas,
      style: graphStyle(),
      layout: { name: "preset" },
      autoungrabify: true,
      boxSelectionEnabled: false,
      userZoomingEnabled: false, // the wheel scrolls the page
      userPanningEnabled: !isTouch, // and so does a finger
      maxZoom: 4,
      minZoom: 0.1,
    });
    this.graph.on("onetap", "node", (event) => this.onOpen(event.target.id()));
    this.graph.on("dbltap", "node", (event) => this.onExpand(event.target.id()));
    const restyle = () => this.graph.style(graphStyle());
    new MutationObserver(restyle).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
    return this.graph;
  }
}

/** Return the items of the legend: what the sizes, colors and shapes of a drawing mean. */
function renderLegend(nodes, center, hasEdges) {
  const counts = nodes.map((node) => node.mentions);
  const [fewest, most] = [Math.min(...counts), Math.max(...counts)];
  const item = (marks, text) => h("li", null, marks.map((mark) => h("span", { class: `graph-mark ${mark}` })), text);
  const range = fewest === most ? formatNumber(most) : t("list.range", { low: fewest, high: most });
  return [
    nodes.length ? item(["is-small", "is-large"], t("legend.size", { range })) : null,
    center ? item(["is-center"], t("legend.center")) : nodes.length ? item(["is-center"], t("legend.path")) : null,
    typeLegend(nodes),
    center && hasEdges ? item(["is-edge"], t("legend.width")) : null,
  ];
}

function shortLabel(name) {
  const letters = Array.from(name);
  return letters.length > LABEL_LENGTH ? `${letters.slice(0, LABEL_LENGTH).join("")}…` : name;
}

/** Return the style of the drawing in the colors of the theme. */
function graphStyle() {
  const color = themeColor;
  return [
    {
      selector: "node",
      style: {
        label: "data(label)",
        width: "data(size)",
        height: "data(size)",
        color: color("--ink"),
        "font-size": SMALLEST_LABEL,
        "text-valign": "bottom",
        "text-margin-y": 3,
        "text-outline-color": color("--surface"),
        "text-outline-width": 2,
        "min-zoomed-font-size": 6,
      },
    },
    ...typeStyles(color),
    { selector: "node.type-noun", style: { shape: "diamond", "background-color": color("--muted") } },
    { selector: "node.center, node.on-path", style: { "background-color": color("--accent"), "font-weight": "bold" } },
    { selector: "edge", style: { width: "data(width)", "line-color": color("--line"), "curve-style": "straight" } },
    { selector: "edge.own", style: { "line-color": color("--control-line"), "z-index": 1 } },
    { selector: "edge.on-path", style: { "line-color": color("--accent"), width: 5 } },
  ];
}

/** Return a name for an edge, whichever of its ends comes first. */
export function edgeKey(edge) {
  return [edge.source, edge.target].sort().join("\n");
}
