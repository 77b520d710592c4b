// The list of documents beside the tree, with a search.

import { busy, clear, debounced, errorBox, h, labeled, nothingFound } from "./dom.js";
import { countOf, rich, t } from "./i18n.js";
import { viewLink } from "./links.js";

const LISTED_DOCUMENTS = 25;

/** The list of documents with a search; `searched()` is called after one. */
export class DocumentFinder {
  constructor(source, searched) {
    this.source = source;
    this.current = "";
    this.request = 0;
    this.items = [];
    this.search = h("input", { id: "tree-search", type: "search", autocomplete: "off" });
    this.status = h("p", { class: "hint", role: "status" });
    this.list = h("ul", { class: "tree-documents" });
    this.more = h("button", { type: "button", class: "quiet small", hidden: true }, t("tree.more_documents"));
    this.problem = h("div");
    this.search.addEventListener("input", debounced(() => this.load(0).then(searched)));
    this.more.addEventListener("click", () => busy(this.more, () => this.load(this.items.length)));
    this.element = h(
      "section",
      { class: "card stack", "aria-labelledby": "tree-documents" },
      h("h2", { id: "tree-documents" }, t("view.documents")),
      labeled(t("tree.search"), this.search),
      this.status,
      this.problem,
      this.list,
      this.more,
    );
    this.total = 0;
    this.loading = this.load(0);
  }

  /** Search for a text. */
  find(text) {
    if (text === this.search.value.trim()) return;
    this.search.value = text;
    this.loading = this.load(0);
  }

  /** Return the id of the document if there is only one. */
  async only() {
    await this.loading;
    return this.total === 1 ? this.items[0].id : "";
  }

  async load(offset) {
    this.request += 1;
    const own = this.request;
    try {
      const found = await this.source.documents({ offset, limit: LISTED_DOCUMENTS, search: this.search.value, status: "done" });
      if (own !== this.request) return;
      clear(this.problem);
      this.items = offset ? [...this.items, ...found.items] : found.items;
      this.total = found.total;
      clear(this.list, this.items.map((one) => this.renderItem(one)));
      this.more.hidden = this.items.length >= found.total;
      this.status.textContent = found.total ? t("tree.listed", { shown: this.items.length, count: found.total }) : nothingFound(this.source, this.search.value, t("tree.unknown"), t("tree.none"));
    } catch (error) {
      if (own === this.request) clear(this.problem, errorBox(error));
    }
  }

  renderItem(one) {
    const current = one.id === this.current ? "true" : null;
    return h(
      "li",
      { "data-document": one.id },
      h("a", { href: viewLink("tree", { document: one.id, search: this.search.value.trim() }), "aria-current": current, dir: "auto" }, one.title || one.id),
      h("span", { class: "hint" }, " ", one.title ? rich("tree.item", { id: h("span", { dir: "auto" }, one.id), chunks: countOf(one.chunks, "chunk") }) : countOf(one.chunks, "chunk")),
    );
  }

  /** Return the title of a document with its id, or the id alone if the list does not contain it. */
  titleOf(id) {
    const title = this.items.find((one) => one.id === id)?.title;
    return title ? `${title} (${id})` : id;
  }

  /** Return the code of the language of a listed document, or null. */
  languageOf(id) {
    return this.items.find((one) => one.id === id)?.language || null;
  }

  mark(id) {
    this.current = id;
    for (const item of this.list.children) {
      const link = item.querySelector("a");
      if (item.dataset.document === id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }
}
