// The entity graph: the entities, the neighborhood of one of them, the sentences of its edges, and the paths
// between two names. The lists below the drawing contain everything that the drawing shows.

import { announce, busy, choice, clear, errorBox, h, labeled } from "./dom.js";
import { GraphDrawing, edgeKey } from "./drawing.js";
import { EntityEditor } from "./edits.js";
import { renderEdges, renderMentions, renderPathList } from "./evidence.js";
import { typeWord } from "./entity_types.js";
import { EntityFinder } from "./finder.js";
import { commaList, countOf, t } from "./i18n.js";
import { viewLink } from "./links.js";

const DRAWN_SIZES = [20, 40, 80];
const DRAWN_AT_FIRST = matchMedia("(max-width: 52rem)").matches ? 20 : 40;
const DRAWN_AT_MOST = 160;
const ADDED_BY_EXPANSION = 15;
const LAYOUTS = ["distance", "force"];

/**
 * Show the entity graph. A session that may write has `info` and `state` to correct entities. A source with `isReport` knows only the paths of its answers, so there is no form for
 * two names; its `graphNote` says which entities it contains.
 */
export function mountGraph(root, source, info, state) {
  const view = new GraphView(root, source, info && !info.read_only && !info.shards ? state : null);
  root.addEventListener("view-shown", (event) => view.show(event.detail));
  root.addEventListener("index-changed", () => view.renew(!root.hidden));
}

class GraphView {
  constructor(root, source, state) {
    this.source = source;
    this.editor = state ? new EntityEditor(source, state, (entity) => this.edited(entity)) : null;
    this.limit = DRAWN_AT_FIRST;
    this.nouns = false;
    this.layout = LAYOUTS[0];
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
    this.layouts = choice("graph-layout", LAYOUTS.map((layout) => [layout, t(`layout.${layout}`)]), { "aria-label": t("graph.layout") });
    this.layouts.addEventListener("change", () => {
      this.layout = this.layouts.value;
      this.keepPlace();
      this.draw();
    });
    this.members = h("div");
    this.relations = h("div");
    this.evidence = h("div", { class: "graph-evidence" });
    this.main = h(
      "div",
      { class: "graph-main", hidden: true },
      this.title,
      this.facts,
      h("div", { class: "row graph-tools" }, this.drawing.buttons(), this.limits, this.layouts, this.editor?.shortcut),
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
      this.layout = LAYOUTS.find((layout) => layout === parameters.layout) ?? LAYOUTS[0];
      this.layouts.value = this.layout;
    }
    this.list.use(this.nouns, isBare ? undefined : (parameters.find ?? ""), isBare ? undefined : (parameters.type ?? ""));
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
    return JSON.stringify([this.place, this.nouns, this.limit, this.layout]);
  }

  /** Read the entities again, and what is drawn when it is shown again: nothing moves under the eyes of a reader. */
  renew(isVisible) {
    this.list.load(0);
    if (!isVisible && this.shown !== null) this.shown = "";
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
    return viewLink("graph", { ...place, nouns: nouns ? "1" : "", find: this.list.search.value.trim(), type: this.list.types.value, size, layout: this.layout === LAYOUTS[0] ? "" : this.layout });
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
      h("span", null, typeWord(info.type)),
      h("span", null, countOf(info.mentions, "mention")),
      h("span", null, countOf(info.documents, "document")),
      h("span", null, countOf(info.degree, "neighbor")),
      info.aliases.length ? h("span", null, t("graph.aliases", { names: commaList(info.aliases) })) : null,
      found.nouns ? h("span", null, t("graph.nouns_left_out", { count: found.nouns })) : null,
      undrawn ? h("span", { class: "graph-omitted" }, t("graph.not_drawn", { count: undrawn })) : null,
    ]);
    clear(this.evidence, renderMentions(details));
    this.editor?.show(label);
    this.limits.hidden = this.layouts.hidden = false;
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
      for (const hop of path.hops) edges.set(edgeKey(hop), { source: hop.source, target: hop.target, weight: 1 });
    }
    this.edges = [...edges.values()];
    const ends = paths.length ? [paths[0].entities[0], paths[0].entities.at(-1)].map((name) => this.labelOf(name)) : [source, target];
    clear(this.title, ends.join(" – "));
    clear(this.facts, h("span", null, paths.length ? countOf(paths.length, "path") : t("graph.no_path")));
    clear(this.evidence, renderPathList(paths, (name) => this.labelOf(name), (path) => this.drawing.highlight(path)));
    this.editor?.show("");
    this.limits.hidden = this.layouts.hidden = true;
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
    clear(this.relations, this.edges.length && !this.paths.length ? renderEdges(this.edges, this.center, this.source, (name) => this.labelOf(name)) : null);
    await this.drawing.draw([...this.nodes.values()], this.edges, { center: this.center, paths: this.paths, layout: this.layout });
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
            h("span", { class: "hint" }, ` ${typeWord(node.type)}`),
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
}
