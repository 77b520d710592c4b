// The entity graph: the entities, the neighborhood of one of them, the sentences of its edges, and the paths
// between two names. The lists below the drawing contain everything that the drawing shows.

import { viewLink } from "./answer.js";
import { announce, busy, choice, clear, debounced, errorBox, h, labeled, nothingFound, themeColor } from "./dom.js";
import { EntityEditor } from "./edits.js";
import { commaList, countOf, formatNumber, sentences, t } from "./i18n.js";

const LISTED_ENTITIES = 30;
const LISTED_EDGES = 12;
const LISTED_MENTIONS = 8;
const DRAWN_SIZES = [20, 40, 80];
const DRAWN_AT_FIRST = matchMedia("(max-width: 52rem)").matches ? 20 : 40;
const DRAWN_AT_MOST = 160;
const ADDED_BY_EXPANSION = 15;
const LABEL_LENGTH = 32;
const SMALLEST_LABEL = 11.5; // pixels
const DRAWN_EDGES = 150; // apart from those of the entity itself; more would be a blur
const [SMALLEST_NODE, LARGEST_NODE] = [10, 34]; // pixels
const INNER_RING = 10;
const LARGEST_FIT = 1.2;

/**
 * Show the entity graph. A session that may write has `info` and `state` to correct entities. A source with `isReport` knows only the paths of its answers, so there is no form for
 * two names; its `graphNote` says which entities it contains.
 */
export function mountGraph(root, source, info, state) {
  const view = new GraphView(root, source, info && !info.read_only ? state : null);
  root.addEventListener("view-shown", (event) => view.show(event.detail));
  root.addEventListener("index-changed", () => view.list.load(0));
}

class GraphView {
  constructor(root, source, state) {
    this.source = source;
    this.editor = state ? new EntityEditor(source, state, (entity) => this.edited(entity)) : null;
    this.limit = DRAWN_AT_FIRST;
    this.nouns = false;
    this.nodes = new Map();
    this.edges = [];
    this.center = "";
    this.paths = [];
    this.shown = null;
    this.request = 0;
    this.drawing = new GraphDrawing((name) => this.open(name), (name) => this.expand(name));
    this.list = new EntityFinder(source, (parameters) => this.address(parameters), () => this.keepPlace());
    this.list.nounSwitch.addEventListener("change", () => {
      location.hash = this.address({ ...this.place, nouns: this.list.nounSwitch.checked });
    });
    this.title = h("h2", { id: "graph-title", tabindex: "-1", dir: "auto" });
    this.facts = h("p", { class: "facts" });
    this.problem = h("div");
    this.limits = choice("graph-size", DRAWN_SIZES.map((size) => [size, countOf(size, "entity")]), { "aria-label": t("graph.size") });
    this.limits.value = String(this.limit);
    this.limits.addEventListener("change", () => {
      this.limit = Number(this.limits.value);
      this.keepPlace();
      this.reload();
    });
    this.members = h("div");
    this.relations = h("div");
    this.evidence = h("div", { class: "graph-evidence" });
    this.main = h(
      "div",
      { class: "graph-main", hidden: true },
      this.title,
      this.facts,
      h("div", { class: "row graph-tools" }, this.drawing.buttons(), this.limits),
      this.drawing.element,
      h("div", { class: "graph-lists" }, this.members, this.relations, this.editor?.form, this.evidence),
    );
    clear(
      root,
      h("h1", null, t("view.graph")),
      source.graphNote ? h("p", { class: "hint" }, source.graphNote) : null,
      h(
        "div",
        { class: "graph-layout" },
        h("div", { class: "graph-side stack" }, this.list.element, source.isReport ? null : this.pathForm(), this.editor?.element),
        h("div", null, this.problem, this.main),
      ),
    );
  }

  /** Show the entity or the paths that the parameters of the address name, or else the first entity. */
  async show(parameters) {
    const { entity, source, target } = parameters;
    this.nouns = parameters.nouns === "1";
    this.place = source && target ? { source, target } : entity ? { entity } : {};
    const isBare = !Object.keys(parameters).length; // the link to the view, which keeps the search and the size
    if (!isBare) {
      this.limit = DRAWN_SIZES.find((size) => String(size) === parameters.size) ?? DRAWN_AT_FIRST;
      this.limits.value = String(this.limit);
    }
    this.list.use(this.nouns, isBare ? undefined : (parameters.find ?? ""));
    const wanted = this.wanted();
    const isFirst = this.shown === null;
    if (this.shown === wanted) {
      this.drawing.refresh();
      return;
    }
    this.shown = wanted;
    if (source && target) {
      if (this.from) {
        this.from.value = source;
        this.to.value = target;
      }
      await this.load((isNewest) => this.showPaths(source, target, isNewest));
    } else if (entity) {
      await this.load((isNewest) => this.showEntity(entity, isNewest));
    } else {
      await this.load(async (isNewest) => {
        const first = await this.list.first();
        if (first && isNewest()) await this.showEntity(first, isNewest);
      });
    }
    // On a small screen, the drawing is below the lists.
    if (!isFirst && matchMedia("(max-width: 52rem)").matches) this.title.scrollIntoView();
  }

  /** Return what is to be drawn, to compare it with what is drawn. */
  wanted() {
    return JSON.stringify([this.place, this.nouns, this.limit]);
  }

  /** Keep in the address what the reader searches and how much is drawn; Back need not undo it. */
  keepPlace() {
    if (!Object.keys(this.place).length && this.center) this.place = { entity: this.center };
    this.shown = this.wanted();
    history.replaceState(null, "", this.address(this.place));
  }

  open(name) {
    location.hash = this.address({ entity: name });
  }

  /** Show an entity after a correction, the most mentioned one for an empty text, or the same place again. */
  async edited(entity) {
    const place = entity === undefined ? this.place : entity ? { entity } : {};
    const before = location.hash;
    this.shown = "";
    if (entity === "") this.list.search.value = ""; // the search may not find the most mentioned one
    this.list.loading = this.list.load(0);
    location.hash = this.address(place);
    if (location.hash === before) await this.show({ ...place, nouns: this.nouns ? "1" : "" });
  }

  /** Return the address of an entity or of paths, which keeps what else the reader chose. */
  address({ nouns = this.nouns, ...place }) {
    const size = this.limit === DRAWN_AT_FIRST ? "" : String(this.limit);
    return viewLink("graph", { ...place, nouns: nouns ? "1" : "", find: this.list.search.value.trim(), size });
  }

  /** Return the name of a drawn entity as the texts write it. */
  labelOf(name) {
    return this.nodes.get(name)?.label || name;
  }

  reload() {
    if (this.center) this.load((isNewest) => this.showEntity(this.center, isNewest));
  }

  /** Run a task that reads from the source; a task that a later one replaced shows nothing. */
  async load(task) {
    this.request += 1;
    const own = this.request;
    const isNewest = () => own === this.request;
    this.main.setAttribute("aria-busy", "true");
    try {
      await task(isNewest);
      if (isNewest()) clear(this.problem);
    } catch (error) {
      if (!isNewest()) return;
      this.shown = ""; // so that the same address tries again
      this.main.hidden = true;
      clear(this.problem, errorBox(error));
    } finally {
      if (isNewest()) this.main.removeAttribute("aria-busy");
    }
  }

  async showEntity(name, isNewest) {
    const [found, details] = await Promise.all([this.source.neighborhood(name, this.limit, this.nouns), this.source.entity(name)]);
    if (!isNewest()) return;
    this.center = found.center;
    this.paths = [];
    this.nodes = new Map(found.nodes.map((node) => [node.name, node]));
    this.edges = found.edges;
    this.list.mark(found.center);
    const { info } = details;
    const label = this.labelOf(found.center);
    const undrawn = found.omitted - found.nouns;
    clear(this.title, label);
    clear(this.facts, [
      this.nodes.get(found.center).is_name ? null : h("span", null, t("graph.noun")),
      h("span", null, countOf(info.mentions, "mention")),
      h("span", null, countOf(info.documents, "document")),
      h("span", null, countOf(info.degree, "neighbor")),
      info.aliases.length ? h("span", null, t("graph.aliases", { names: commaList(info.aliases) })) : null,
      found.nouns ? h("span", null, t("graph.nouns_left_out", { count: found.nouns })) : null,
      undrawn ? h("span", { class: "graph-omitted" }, t("graph.not_drawn", { count: undrawn })) : null,
    ]);
    clear(this.evidence, this.renderMentions(details));
    this.editor?.show(label);
    this.limits.hidden = false;
    this.main.hidden = false;
    await this.draw();
    announce(t("graph.told", { label, count: found.nodes.length - 1, omitted: found.omitted }));
  }

  async showPaths(source, target, isNewest) {
    const { paths, nodes } = await this.source.path(source, target);
    if (!isNewest()) return;
    this.paths = paths;
    this.center = "";
    this.list.mark("");
    this.nodes = new Map(nodes.map((node) => [node.name, node]));
    const edges = new Map();
    for (const path of paths) {
      for (const hop of path.hops) edges.set([hop.source, hop.target].sort().join("\n"), { source: hop.source, target: hop.target, weight: 1 });
    }
    this.edges = [...edges.values()];
    const ends = paths.length ? [paths[0].entities[0], paths[0].entities.at(-1)].map((name) => this.labelOf(name)) : [source, target];
    clear(this.title, ends.join(" – "));
    clear(this.facts, h("span", null, paths.length ? countOf(paths.length, "path") : t("graph.no_path")));
    clear(this.evidence, this.renderPathList(paths));
    this.editor?.show("");
    this.limits.hidden = true;
    this.main.hidden = false;
    await this.draw();
    announce(paths.length ? t("graph.told_paths", { count: paths.length, from: ends[0], to: ends[1] }) : t("graph.no_path"));
  }

  /** Add the heaviest neighbors of an entity to the drawing. */
  async expand(name) {
    const before = this.nodes.size;
    const { request } = this;
    try {
      const found = await this.source.neighborhood(name, ADDED_BY_EXPANSION + 1, this.nouns);
      if (request !== this.request) return; // another entity is shown now
      for (const node of found.nodes) {
        if (this.nodes.size >= DRAWN_AT_MOST) break;
        if (!this.nodes.has(node.name)) this.nodes.set(node.name, node);
      }
      const known = new Set(this.edges.map((edge) => edgeKey(edge)));
      this.edges = this.edges.concat(found.edges.filter((edge) => this.nodes.has(edge.source) && this.nodes.has(edge.target) && !known.has(edgeKey(edge))));
    } catch (error) {
      if (request === this.request) clear(this.problem, errorBox(error));
      return;
    }
    await this.draw();
    const added = this.nodes.size - before;
    const isFull = this.nodes.size >= DRAWN_AT_MOST;
    announce(isFull ? t("graph.full", { most: DRAWN_AT_MOST }) : t("graph.added", { count: added, label: this.labelOf(name) }));
  }

  async draw() {
    clear(this.members, this.renderMembers());
    clear(this.relations, this.renderEdges());
    await this.drawing.draw([...this.nodes.values()], this.edges, this.center, this.paths);
  }

  pathForm() {
    this.from = h("input", { id: "graph-from", required: true, autocomplete: "off" });
    this.to = h("input", { id: "graph-to", required: true, autocomplete: "off" });
    const form = h(
      "form",
      { class: "card stack", "aria-label": t("graph.paths") },
      h("h2", null, t("graph.paths")),
      labeled(t("graph.from"), this.from),
      labeled(t("graph.to"), this.to),
      h("button", { type: "submit" }, t("graph.find")),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      location.hash = this.address({ source: this.from.value.trim(), target: this.to.value.trim() });
    });
    return form;
  }

  renderMembers() {
    const nodes = [...this.nodes.values()];
    if (!nodes.length) return null;
    return h(
      "section",
      { class: "card", "aria-labelledby": "graph-members" },
      h("h3", { id: "graph-members" }, t("graph.members")),
      h(
        "ul",
        { class: "graph-members" },
        nodes.map((node) => {
          const button = h("button", { type: "button", class: "quiet small", "data-name": node.name, "aria-label": t("graph.expand", { label: node.label }) }, t("do.expand"));
          button.addEventListener("click", () => {
            busy(button, () => this.expand(node.name)).then(() => this.focusExpand(node.name));
          });
          return h(
            "li",
            null,
            h("a", { class: "entity", href: this.address({ entity: node.name }), "aria-current": node.name === this.center ? "true" : null, dir: "auto" }, node.label),
            h("span", { class: "hint" }, ` ${countOf(node.mentions, "mention")} `),
            button,
          );
        }),
      ),
    );
  }

  focusExpand(name) {
    for (const button of this.members.querySelectorAll("button")) {
      if (button.dataset.name === name) button.focus();
    }
  }

  renderEdges() {
    if (!this.edges.length || this.paths.length) return null;
    const own = this.edges.filter((edge) => edge.source === this.center || edge.target === this.center);
    const others = this.edges.filter((edge) => !own.includes(edge));
    const ordered = [...own, ...others];
    const list = h("ul", { class: "graph-edges" });
    const more = h("button", { type: "button", class: "quiet small" }, t("graph.more_edges"));
    let count = 0;
    const extend = () => {
      for (const edge of ordered.slice(count, count + LISTED_EDGES)) list.append(h("li", null, this.renderEdge(edge)));
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

  renderEdge(edge) {
    const body = h("div");
    const item = h(
      "details",
      null,
      h("summary", null, h("span", { dir: "auto" }, `${this.labelOf(edge.source)} – ${this.labelOf(edge.target)}`), " ", h("span", { class: "hint" }, t("graph.weight", { value: edge.weight }))),
      body,
    );
    item.addEventListener("toggle", async () => {
      if (!item.open || body.childNodes.length) return;
      clear(body, h("p", { class: "hint" }, t("told.loading")));
      try {
        const found = await this.source.edge(edge.source, edge.target);
        const items = found.sentences.map((one) => h("li", { dir: "auto" }, one.text, " ", placeLink(one.document_id, one.start, one.end)));
        clear(body, items.length ? h("ul", { class: "sentences" }, items) : h("p", { class: "hint" }, t("graph.no_sentence")));
        if (found.has_more) body.append(h("p", { class: "hint" }, t("graph.more_sentences")));
      } catch (error) {
        clear(body, errorBox(error));
      }
    });
    return item;
  }

  renderMentions(details) {
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

  renderPathList(paths) {
    if (!paths.length) return null;
    return h(
      "section",
      { class: "card", "aria-labelledby": "graph-paths" },
      h("h3", { id: "graph-paths" }, t("graph.path_list")),
      h(
        "ol",
        { class: "graph-paths" },
        paths.map((path, index) => {
          const button = h("button", { type: "button", class: "quiet small", "aria-pressed": String(index === 0) }, t("graph.highlight"));
          button.addEventListener("click", () => {
            for (const other of this.evidence.querySelectorAll("[aria-pressed]")) other.setAttribute("aria-pressed", String(other === button));
            this.drawing.highlight(path);
          });
          return h(
            "li",
            null,
            h("strong", { dir: "auto" }, path.entities.map((name) => this.labelOf(name)).join(" – ")),
            " ",
            button,
            h("ul", { class: "sentences" }, path.hops.map((hop) => h("li", { dir: "auto" }, hop.text, " ", placeLink(hop.document_id, hop.start, hop.end)))),
          );
        }),
      ),
    );
  }
}

function edgeKey(edge) {
  return [edge.source, edge.target].sort().join("\n");
}

function placeLink(documentId, start, end) {
  const place = t("graph.place", { document: documentId, range: `${formatNumber(start)}–${formatNumber(end)}` });
  return h("a", { class: "hint", href: viewLink("tree", { document: documentId, start, end }) }, place);
}

/**
 * The list of names, or of all entities, with a search by prefix; `address(parameters)` returns links of the view, and
 * `searched()` is called after a search.
 */
class EntityFinder {
  constructor(source, address, searched) {
    this.source = source;
    this.address = address;
    this.nouns = false;
    this.loading = null;
    this.current = "";
    this.top = "";
    this.request = 0;
    this.items = [];
    this.search = h("input", { id: "entity-search", type: "search", autocomplete: "off" });
    this.status = h("p", { class: "hint", role: "status" });
    this.names = h("ul", { class: "entity-list" });
    this.more = h("button", { type: "button", class: "quiet small", hidden: true }, t("graph.more_entities"));
    this.problem = h("div");
    this.nounSwitch = h("input", { id: "graph-nouns", type: "checkbox", role: "switch" });
    this.search.addEventListener("input", debounced(() => this.load(0).then(searched)));
    this.more.addEventListener("click", () => busy(this.more, () => this.load(this.items.length)));
    this.element = h(
      "section",
      { class: "card stack", "aria-labelledby": "entity-heading" },
      h("h2", { id: "entity-heading" }, t("graph.entities")),
      labeled(t("graph.search"), this.search),
      source.isReport ? null : h("label", { class: "check" }, this.nounSwitch, t("graph.nouns")),
      this.status,
      this.problem,
      this.names,
      this.more,
    );
    this.element.addEventListener("keydown", (event) => this.move(event));
  }

  /** Show the names that begin with a text, with or without common nouns. */
  use(nouns, find = this.search.value) {
    this.nounSwitch.checked = nouns;
    if (this.loading && nouns === this.nouns && find === this.search.value.trim()) return;
    this.nouns = nouns;
    this.search.value = find;
    this.loading = this.load(0);
  }

  /** Move the focus with the arrow keys from the search through the names; Enter opens the first one. */
  move(event) {
    const links = [...this.names.querySelectorAll("a")];
    const place = links.indexOf(document.activeElement);
    const isSearch = document.activeElement === this.search;
    if (!links.length || (place < 0 && !isSearch)) return;
    if (isSearch && event.key === "Enter") location.hash = links[0].hash;
    else if (event.key === "ArrowDown") links[Math.min(place + 1, links.length - 1)].focus();
    else if (event.key === "ArrowUp" && place >= 0) (links[place - 1] ?? this.search).focus();
    else return;
    event.preventDefault(); // the list does not scroll twice
  }

  /** Return the name of the most mentioned entity. */
  async first() {
    await this.loading;
    return this.top;
  }

  async load(offset) {
    this.request += 1;
    const own = this.request;
    try {
      const found = await this.source.entities({ prefix: this.search.value, limit: LISTED_ENTITIES, offset, nouns: this.nouns });
      if (own !== this.request) return;
      clear(this.problem);
      this.items = offset ? [...this.items, ...found.items] : found.items;
      if (!this.search.value) this.top = this.items[0]?.name ?? "";
      this.draw(found.total);
    } catch (error) {
      if (own === this.request) clear(this.problem, errorBox(error));
    }
  }

  draw(total) {
    clear(this.names, this.items.map((one) => this.renderItem(one)));
    this.more.hidden = this.items.length >= total;
    const isAll = this.nouns || this.source.isReport;
    const counted = countOf(total, isAll ? "entity" : "name");
    this.status.textContent = total
      ? t("graph.listed", { shown: this.items.length, counted })
      : this.reasons(isAll);
  }

  /** Return why the list is empty. */
  reasons(isAll) {
    const reasons = nothingFound(this.source, this.search.value, t("graph.unknown"), t("graph.none"));
    const isComplete = !this.source.reasons?.(); // else missing documents are the reason
    return isAll || !isComplete ? reasons : sentences([reasons, t("graph.nouns_are_left_out")]);
  }

  renderItem(one) {
    const current = one.name === this.current ? "true" : null;
    const href = this.address({ entity: one.name });
    return h(
      "li",
      null,
      h("a", { class: "entity", href, "data-name": one.name, "aria-current": current, dir: "auto" }, one.label),
      h("span", { class: "hint" }, ` ${formatNumber(one.mentions)}`),
    );
  }

  mark(name) {
    this.current = name;
    for (const link of this.names.querySelectorAll("a")) {
      if (link.dataset.name === name) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }
}

/** The drawing. Positions depend only on the order of the nodes and the size, so equal graphs look equal. */
class GraphDrawing {
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

  async draw(nodes, edges, center, paths) {
    const graph = await this.open();
    graph.resize();
    const size = { width: graph.width() || 900, height: graph.height() || 500 };
    const places = paths.length ? pathPlaces(paths) : ringPlaces(nodes, center, size);
    const isOwn = (edge) => edge.source === center || edge.target === center;
    const others = edges.filter((edge) => !isOwn(edge)).sort((one, other) => other.weight - one.weight);
    const drawn = [...others.slice(0, DRAWN_EDGES), ...edges.filter(isOwn)];
    this.note.textContent = drawn.length < edges.length ? t("drawing.heaviest", { count: DRAWN_EDGES }) : "";
    const heaviest = drawn.reduce((most, edge) => Math.max(most, edge.weight), 1e-9);
    const mostMentions = Math.max(1, ...nodes.map((node) => node.mentions));
    clear(this.legend, renderLegend(nodes, center, drawn.length > 0));
    graph.elements().remove();
    graph.add(
      nodes.map(({ name, label, mentions, is_name: isName }) => ({
        group: "nodes",
        data: { id: name, label: shortLabel(label), size: SMALLEST_NODE + (LARGEST_NODE - SMALLEST_NODE) * Math.sqrt(mentions / mostMentions) },
        position: places.get(name),
        classes: [name === center && "center", !isName && "noun"].filter(Boolean),
      })),
    );
    graph.add(
      drawn.map((edge) => ({
        group: "edges",
        data: { id: `edge\n${edgeKey(edge)}`, source: edge.source, target: edge.target, width: 1 + (4 * edge.weight) / heaviest },
        classes: isOwn(edge) ? "own" : "",
      })),
    );
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
    nodes.some((node) => !node.is_name) ? item(["is-noun"], t("legend.noun")) : null,
    center && hasEdges ? item(["is-edge"], t("legend.width")) : null,
  ];
}

function shortLabel(name) {
  const letters = Array.from(name);
  return letters.length > LABEL_LENGTH ? `${letters.slice(0, LABEL_LENGTH).join("")}…` : name;
}

/** Return positions on rings that fill the drawing, each larger than the one before; the first nodes are inside. */
function ringPlaces(nodes, center, { width, height }) {
  const others = nodes.filter((node) => node.name !== center);
  const places = new Map(others.length < nodes.length ? [[center, { x: 0, y: 0 }]] : []);
  const rings = [];
  for (let first = 0; first < others.length; first += rings.at(-1).length) {
    rings.push(others.slice(first, first + INNER_RING * (rings.length + 1)));
  }
  const [stepX, stepY] = [(width / 2 - 60) / rings.length, (height / 2 - 40) / rings.length];
  rings.forEach((ring, place) => {
    ring.forEach((node, index) => {
      const angle = (2 * Math.PI * (index + (place % 2 ? 0.5 : 0))) / ring.length - Math.PI / 2;
      places.set(node.name, { x: stepX * (place + 1) * Math.cos(angle), y: stepY * (place + 1) * Math.sin(angle) });
    });
  });
  return places;
}

/** Return positions of paths from left to right, one below the other; a shared entity has one place. */
function pathPlaces(paths) {
  const places = new Map();
  const width = 170 * Math.max(...paths.map((path) => path.entities.length - 1));
  paths.forEach((path, row) => {
    path.entities.forEach((name, index) => {
      if (!places.has(name)) places.set(name, { x: (width * index) / (path.entities.length - 1), y: 90 * row });
    });
  });
  const middle = (90 * (paths.length - 1)) / 2;
  for (const end of [paths[0].entities[0], paths[0].entities.at(-1)]) places.get(end).y = middle;
  return places;
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
        "background-color": color("--local"),
        color: color("--ink"),
        "font-size": SMALLEST_LABEL,
        "text-valign": "bottom",
        "text-margin-y": 3,
        "text-outline-color": color("--surface"),
        "text-outline-width": 2,
        "min-zoomed-font-size": 6,
      },
    },
    { selector: "node.noun", style: { shape: "diamond", "background-color": color("--muted") } },
    { selector: "node.center, node.on-path", style: { "background-color": color("--accent"), "font-weight": "bold" } },
    { selector: "edge", style: { width: "data(width)", "line-color": color("--line"), "curve-style": "straight" } },
    { selector: "edge.own", style: { "line-color": color("--control-line"), "z-index": 1 } },
    { selector: "edge.on-path", style: { "line-color": color("--accent"), width: 5 } },
  ];
}
