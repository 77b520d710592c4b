// The summary trees: the documents, and each summary beside the part of the text that it covers.

import { reflowed } from "./answer.js";
import { DocumentFinder } from "./document_finder.js";
import { announce, busy, clear, errorBox, h } from "./dom.js";
import { countOf, formatNumber, t } from "./i18n.js";
import { viewLink } from "./links.js";

const FIRST_PART = 700;
const NEXT_PART = 4_000;
const AROUND = 800;
const SHOWN_OF_CHUNK = 900;

/** Show the summary trees. A source with a `treeNote` does not contain all texts. */
export function mountTree(root, source) {
  const view = new TreeView(root, source);
  root.addEventListener("view-shown", (event) => view.show(event.detail));
  root.addEventListener("index-changed", () => view.renew(!root.hidden));
}

class TreeView {
  constructor(root, source) {
    this.source = source;
    this.shown = null;
    this.request = 0;
    this.found = ""; // the shown nodes, as the server sent them
    this.list = new DocumentFinder(source, () => this.keepPlace());
    this.place = {};
    this.title = h("h2", { id: "tree-title", dir: "auto" });
    this.facts = h("p", { class: "facts" });
    this.problem = h("div");
    this.nodes = h("div");
    this.main = h("section", { "aria-labelledby": "tree-title", hidden: true }, this.title, this.facts, this.nodes);
    this.hint = h("p", { class: "empty" }, t("tree.choose"));
    clear(
      root,
      h("h1", null, t("view.tree")),
      source.treeNote ? h("p", { class: "hint" }, source.treeNote) : null,
      h("div", { class: "tree-layout" }, this.list.element, h("div", null, this.hint, this.problem, this.main)),
    );
  }

  /** Show the tree of the document that the address names, opened at the range in it. */
  async show({ search, ...place }) {
    const { document: documentId, start, end, best } = place;
    const wanted = JSON.stringify([documentId, start, end, best]);
    if (this.shown === wanted) return;
    if (!documentId) {
      if (search !== undefined) this.list.find(search);
      if (this.shown === "" && this.place.document) { // it may have changed while it was hidden
        await this.show({ ...this.place, search: this.list.search.value.trim() });
        return;
      }
      const only = this.shown === null ? await this.list.only() : "";
      if (only && this.shown === null) await this.show({ document: only });
      return;
    }
    this.shown = wanted;
    this.place = place;
    this.list.find(search ?? "");
    this.request += 1;
    const own = this.request;
    this.hint.hidden = true;
    this.list.mark(documentId);
    try {
      const found = await this.source.tree(documentId, { offset: 0 });
      await this.list.loading; // it has the title
      if (own !== this.request) return;
      clear(this.problem);
      clear(this.title, this.list.titleOf(documentId));
      this.found = JSON.stringify(found);
      const [top] = found.nodes;
      clear(this.facts, h("span", null, top?.level ? countOf(top.level + 1, "level") : t("tree.short")), h("span", null, countOf(found.total, "top")));
      const context = { title: this.list.titleOf(documentId), language: this.list.languageOf(documentId), best: rangeOfText(best) };
      const list = new NodeList(this.source, found, (offset) => this.source.tree(documentId, { offset }), context);
      clear(this.nodes, list.element);
      this.main.hidden = false;
      announce(t("tree.shown", { id: documentId }));
      if (start !== undefined && end !== undefined) await list.openAt(Number(start), Number(end));
    } catch (error) {
      if (own !== this.request) return;
      this.main.hidden = true;
      clear(this.problem, errorBox(error));
    }
  }

  /** Read the documents again, and the shown tree if it has changed: what a reader has opened stays open. */
  async renew(isVisible) {
    this.list.load(0);
    const { shown, found } = this;
    if (shown === null) return;
    if (isVisible && this.place.document) {
      const now = await this.source.tree(this.place.document, { offset: 0 }).catch(() => null);
      if (JSON.stringify(now) === found || shown !== this.shown) return;
      this.shown = "";
      this.show({ ...this.place, search: this.list.search.value.trim() });
    } else if (!isVisible) this.shown = ""; // it is read when it is shown again
  }

  /** Keep in the address what the reader searches; Back need not undo it. */
  keepPlace() {
    history.replaceState(null, "", viewLink("tree", { ...this.place, search: this.list.search.value.trim() }));
  }
}

/**
 * The nodes at one place of a tree, loaded in parts. `context` has the `title` and the `language` of the document, and
 * the `best` range of the hit from which the reader comes, or null.
 */
class NodeList {
  constructor(source, found, load, context) {
    this.source = source;
    this.context = context;
    this.load = load;
    this.items = [];
    this.total = found.total;
    this.list = h("ul", { class: "tree-list" });
    this.more = h("button", { type: "button", class: "quiet small" });
    this.problem = h("div");
    this.more.addEventListener("click", () => busy(this.more, () => this.extend()));
    this.element = h("div", null, this.list, this.problem, this.more);
    this.add(found.nodes);
  }

  add(nodes) {
    for (const node of nodes) {
      const item = new TreeItem(this.source, node, this.context);
      this.items.push(item);
      this.list.append(item.element);
    }
    const left = this.total - this.items.length;
    this.more.hidden = left <= 0;
    this.more.textContent = t("tree.more_nodes", { count: left });
  }

  async extend() {
    try {
      this.add((await this.load(this.items.length)).nodes);
      clear(this.problem);
    } catch (error) {
      clear(this.problem, errorBox(error));
    }
  }

  /** Open the summaries above a range of the text, and move to the chunk that contains it. */
  async openAt(start, end) {
    const covers = (item) => item.node.start <= start && end <= item.node.end;
    const touches = (item) => item.node.start < end && start < item.node.end;
    const isBefore = () => this.items.length < this.total && this.items.at(-1).node.end <= start;
    while (isBefore()) {
      const count = this.items.length;
      await this.extend();
      if (this.items.length === count) return;
    }
    const item = this.items.find(covers) ?? this.items.find(touches);
    if (!item) return;
    const isExact = item.node.start === start && item.node.end === end;
    const below = isExact ? null : await item.open();
    if (below) await below.openAt(start, end);
    else item.markAsTarget();
  }
}

/** A chunk, or a summary beside the text that it covers. */
class TreeItem {
  constructor(source, node, context) {
    this.source = source;
    this.node = node;
    this.context = context;
    this.below = null;
    this.children = h("div", { hidden: true });
    this.problem = h("div");
    const place = t("tree.place", { range: `${formatNumber(node.start)}–${formatNumber(node.end)}` });
    const name = node.level ? t("tree.summary", { level: node.level }) : t("tree.chunk");
    this.heading = h("p", { class: "facts" }, h("strong", null, name), h("span", null, place));
    this.button = node.children ? this.openButton(place) : null;
    this.pair = h("div", { class: node.level ? "tree-pair" : "tree-pair is-chunk" });
    this.card = h("div", { class: "card", tabindex: "-1" }, this.heading, this.pair, this.button, this.problem);
    this.element = h("li", { class: "tree-node" }, this.card, this.children);
    if (node.level) {
      const covered = h("div", { class: "tree-source", role: "group", "aria-label": t("tree.text", { place }) });
      this.pair.append(h("div", null, this.textOf(node.text)), covered);
      whenVisible(covered, () => new CoveredText(covered, source, node).start());
    } else {
      this.pair.append(this.chunkText());
    }
  }

  openButton(place) {
    const label = countOf(this.node.children, "part");
    const name = t("tree.parts_of", { parts: label, place });
    const button = h("button", { type: "button", class: "quiet small tree-open", "aria-expanded": "false", "aria-label": name }, label);
    button.addEventListener("click", () => busy(button, () => (this.children.hidden ? this.open() : this.close())));
    return button;
  }

  chunkText() {
    const letters = Array.from(this.node.text);
    const box = h("div");
    const around = h("button", { type: "button", class: "quiet small" }, t("tree.around"));
    around.addEventListener("click", () => {
      box.replaceChildren();
      new CoveredText(box, this.source, this.node).showAround(this.node.text);
    });
    if (letters.length <= 1.2 * SHOWN_OF_CHUNK) {
      box.append(this.textOf(this.node.text), around);
      return box;
    }
    const text = this.textOf(`${letters.slice(0, SHOWN_OF_CHUNK).join("")} …`);
    const button = h("button", { type: "button", class: "link", "aria-expanded": "false" }, t("tree.entire"));
    this.showAll = () => {
      clear(text, reflowed(this.node.text));
      button.remove();
    };
    button.addEventListener("click", this.showAll);
    box.append(text, h("div", { class: "row" }, button, around));
    return box;
  }

  /** Show the nodes below; return their list, or null if there are none. */
  async open() {
    if (!this.button) return null;
    if (!this.below) {
      const load = (offset) => this.source.children(this.node.node_id, { offset });
      try {
        this.below = new NodeList(this.source, await load(0), load, this.context);
      } catch (error) {
        clear(this.problem, errorBox(error));
        return null;
      }
      clear(this.problem);
      clear(this.children, this.below.element);
    }
    this.children.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    return this.below;
  }

  close() {
    this.children.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
  }

  textOf(text) {
    return h("p", { class: "tree-text", dir: "auto", lang: this.context.language }, reflowed(text));
  }

  /** Show that the reader was led here: mark the hit, say where it is, and offer the way back. */
  markAsTarget() {
    this.showAll?.();
    this.card.classList.add("is-target");
    this.heading.prepend(h("strong", { class: "tree-where", dir: "auto" }, this.context.title));
    if (document.querySelector("#view-ask .hit")) this.heading.append(h("a", { href: viewLink("ask", { back: 1 }) }, t("tree.back")));
    const mark = this.node.level ? null : this.markBest();
    const place = mark ?? this.card;
    place.scrollIntoView({ block: place.getBoundingClientRect().height > innerHeight / 2 ? "start" : "center" });
    this.card.focus({ preventScroll: true });
  }

  /** Mark the part of the chunk that matched best; return the mark, or null without such a part. */
  markBest() {
    const { best } = this.context;
    const letters = Array.from(this.node.text); // ranges count code points
    const cut = (from, to) => reflowed(letters.slice(Math.max(0, from - this.node.start), Math.max(0, to - this.node.start)).join(""), from > 0);
    if (!best || best.start < this.node.start || best.end > this.node.end || best.end - best.start === letters.length) return null;
    const mark = h("mark", { class: "read-range" }, cut(best.start, best.end));
    clear(this.pair.querySelector(".tree-text"), cut(this.node.start, best.start), mark, cut(best.end, this.node.end));
    return mark;
  }
}

/** The part of a document that a node covers, and the text around it, loaded as the reader asks for it. */
class CoveredText {
  constructor(element, source, node) {
    this.element = element;
    this.source = source;
    this.node = node;
    this.before = { from: node.start, to: node.start };
    this.stop = node.start;
    this.text = h("p", { class: "tree-text", dir: "auto" });
    this.problem = h("div");
    this.earlier = this.button(t("tree.before"), () => this.showEarlier());
    this.later = this.button("", () => this.showLater());
    element.append(this.earlier, this.text, this.problem, this.later);
    this.isAtEnd = false;
  }

  button(label, action) {
    const button = h("button", { type: "button", class: "quiet small" }, label);
    button.addEventListener("click", () =>
      busy(button, async () => {
        try {
          await action();
          clear(this.problem);
        } catch (error) {
          clear(this.problem, errorBox(error));
        }
      }).then(() => this.update()),
    );
    return button;
  }

  async start() {
    try {
      await this.append(Math.min(this.node.end, this.node.start + FIRST_PART));
    } catch (error) {
      clear(this.problem, errorBox(error));
    }
    this.update();
  }

  /** Show a text that is known already, and the buttons for the text around it. */
  showAround(text) {
    this.text.append(h("span", null, reflowed(text)));
    this.stop = this.node.end;
    this.update();
  }

  async append(end) {
    const found = await this.source.text(this.node.document_id, this.stop, end);
    const isAround = this.stop >= this.node.end;
    this.text.lang = found.language ?? "";
    this.text.append(h("span", { class: isAround ? "tree-around" : null }, reflowed(found.text, found.start > 0)));
    this.isAtEnd = found.end >= found.length || found.end <= this.stop;
    this.stop = found.end;
  }

  async showLater() {
    await this.append(this.stop < this.node.end ? Math.min(this.node.end, this.stop + NEXT_PART) : this.stop + AROUND);
  }

  async showEarlier() {
    const start = Math.max(0, this.before.from - AROUND);
    const found = await this.source.text(this.node.document_id, start, this.before.from);
    this.text.prepend(h("span", { class: "tree-around" }, reflowed(found.text, start > 0)));
    this.before.from = start;
  }

  update() {
    this.earlier.hidden = this.before.from === 0;
    const left = this.node.end - this.stop;
    this.later.textContent = left > 0 ? t("tree.more_text", { count: left }) : t("tree.after");
    this.later.hidden = left <= 0 && this.isAtEnd;
  }
}

/** Return a range such as `120-240` of the address, or null. */
function rangeOfText(text) {
  const [, start, end] = /^(\d+)-(\d+)$/.exec(text ?? "") ?? [];
  return start === undefined || Number(end) <= Number(start) ? null : { start: Number(start), end: Number(end) };
}

/** Run a task once an element can be seen. */
function whenVisible(element, task) {
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      task();
    },
    { rootMargin: "200px" },
  );
  observer.observe(element);
}
