// The list of the entities, with a search.

import { busy, choice, clear, debounced, errorBox, h, labeled, nothingFound } from "./dom.js";
import { NAME_TYPES, typeWord } from "./entity_types.js";
import { countOf, formatNumber, sentences, t } from "./i18n.js";

const LISTED_ENTITIES = 30;

/**
 * The list of names, or of all entities, with a search by prefix; `address(parameters)` returns links of the view, and
 * `searched()` is called after a search.
 */
export class EntityFinder {
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
    this.types = choice("entity-type", [["", t("graph.all_types")], ...NAME_TYPES.map((type) => [type, typeWord(type)])]);
    this.status = h("p", { class: "hint", role: "status" });
    this.names = h("ul", { class: "entity-list" });
    this.more = h("button", { type: "button", class: "quiet small", hidden: true }, t("graph.more_entities"));
    this.problem = h("div");
    this.nounSwitch = h("input", { id: "graph-nouns", type: "checkbox", role: "switch" });
    this.search.addEventListener("input", debounced(() => this.load(0).then(searched)));
    this.types.addEventListener("change", () => this.load(0).then(searched));
    this.more.addEventListener("click", () => busy(this.more, () => this.load(this.items.length)));
    this.element = h(
      "section",
      { class: "card stack", "aria-labelledby": "entity-heading" },
      h("h2", { id: "entity-heading" }, t("graph.entities")),
      labeled(t("graph.search"), this.search),
      labeled(t("graph.type"), this.types),
      source.isReport ? null : h("label", { class: "check" }, this.nounSwitch, t("graph.nouns")),
      this.status,
      this.problem,
      this.names,
      this.more,
    );
    this.element.addEventListener("keydown", (event) => this.move(event));
  }

  /** Show the names that begin with a text and have a type, with or without common nouns. */
  use(nouns, find = this.search.value, type = this.types.value) {
    this.nounSwitch.checked = nouns;
    if (this.loading && nouns === this.nouns && find === this.search.value.trim() && type === this.types.value) return;
    this.nouns = nouns;
    this.search.value = find;
    this.types.value = NAME_TYPES.includes(type) ? type : "";
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
      const found = await this.source.entities({ prefix: this.search.value, limit: LISTED_ENTITIES, offset, nouns: this.nouns, type: this.types.value });
      if (own !== this.request) return;
      clear(this.problem);
      this.items = offset ? [...this.items, ...found.items] : found.items;
      if (!this.search.value && !this.types.value) this.top = this.items[0]?.name ?? "";
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
      h("span", { class: "hint" }, ` ${typeWord(one.type)}`),
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
