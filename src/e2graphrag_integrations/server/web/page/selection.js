// The documents that are selected in the list, on all of its pages, and what is done with all of them at once.

import { clear, h } from "./dom.js";
import { commaList, countOf, sentences, t } from "./i18n.js";

const NAMED_AT_MOST = 3;

/**
 * The selection and its bar, which says how many documents are selected. `index(items, button)` and
 * `remove(items, button)` are called with the selected documents as they were last listed. Without `index`, they can
 * only be deleted.
 */
export class Selection {
  constructor({ index, remove }) {
    this.chosen = new Map();
    this.boxes = [];
    this.last = ""; // the id of the document that was set last, where a range begins
    this.all = h("input", { type: "checkbox", id: "select-page" });
    this.canIndex = Boolean(index);
    this.hint = h("span", { class: "hint" }, t(index ? "selection.hint" : "selection.hint_delete"));
    this.count = h("strong", { role: "status" });
    const button = (text, kind, writes, act) => h("button", { type: "button", class: `quiet small ${kind}`, "data-writes": writes, onclick: (event) => act(this.items(), event.currentTarget) }, text);
    this.index = button(t("documents.index_again"), "", "all", index);
    this.index.id = "index-selected";
    this.remove = button(t("selection.delete"), "danger", "deletion", remove);
    this.remove.id = "delete-selected";
    const leave = h("button", { type: "button", class: "quiet small", onclick: () => this.clear() }, t("selection.clear"));
    this.bar = h("div", { class: "row", role: "group", "aria-label": t("selection.label"), hidden: true }, this.index, this.remove, leave);
    this.element = h("div", { class: "row selection" }, h("label", { class: "check" }, this.all, t("selection.page")), this.hint, this.count, this.bar);
    this.all.addEventListener("change", () => {
      for (const [one] of this.boxes) this.set(one, this.all.checked);
      this.show();
    });
  }

  /** Return the selected documents. */
  items() {
    return [...this.chosen.values()];
  }

  /** Forget the check boxes of the page that was listed before. */
  begin() {
    this.boxes = [];
  }

  /** Return the check box of a listed document. */
  box(one) {
    if (this.chosen.has(one.id)) this.chosen.set(one.id, one); // its state may have changed
    const box = h("input", { type: "checkbox", "aria-label": t("selection.one", { title: one.title || one.id }), "data-key": `select ${one.id}` });
    box.addEventListener("click", ({ shiftKey }) => {
      this.set(one, box.checked);
      if (shiftKey) this.extend(one, box.checked);
      this.last = one.id;
      this.show();
    });
    this.boxes.push([one, box]);
    return box;
  }

  /** Set the documents between the one that was set before and another one on the same page. */
  extend(one, isChosen) {
    const ids = this.boxes.map(([listed]) => listed.id);
    const [from, to] = [ids.indexOf(this.last), ids.indexOf(one.id)].sort((first, second) => first - second);
    if (from >= 0) for (const [listed] of this.boxes.slice(from, to + 1)) this.set(listed, isChosen);
  }

  set(one, isChosen) {
    if (isChosen) this.chosen.set(one.id, one);
    else this.chosen.delete(one.id);
  }

  /** Select nothing, and move the focus to where the next selection begins. */
  clear() {
    this.chosen.clear();
    this.show();
    this.all.focus();
  }

  /** Show what is selected. */
  show() {
    for (const [one, box] of this.boxes) {
      box.checked = this.chosen.has(one.id);
      box.closest("tr")?.classList.toggle("is-selected", box.checked);
    }
    const here = this.boxes.filter(([one]) => this.chosen.has(one.id)).length;
    const count = this.chosen.size;
    const elsewhere = count - here;
    this.all.checked = here > 0 && here === this.boxes.length;
    this.all.indeterminate = here > 0 && here < this.boxes.length;
    this.element.hidden = !this.boxes.length && !count;
    this.hint.hidden = count > 0;
    this.bar.hidden = !count;
    this.index.hidden = !this.canIndex || !queuedOf(this.items()).length;
    clear(this.count, count ? t(elsewhere ? "selection.count_elsewhere" : "selection.count", { count, elsewhere }) : "");
  }
}

/** Return the documents that are pending or have failed; only these can be indexed again. */
export function queuedOf(items) {
  return items.filter((one) => one.status !== "done");
}

/** Return what deleting documents means, for the confirmation. */
export function describeRemoval(items) {
  const chunks = items.reduce((sum, one) => sum + one.chunks, 0);
  return t(chunks ? "removal.lost" : "removal.nothing", { names: namesOf(items), count: chunks });
}

/** Return what indexing documents costs, for the confirmation; `others` of the selection are indexed already. */
export function describeIndexing(items, cost, others) {
  const tokens = { in: cost.prompt_tokens, out: cost.completion_tokens };
  return sentences([
    t("indexing.creates", { names: namesOf(items), chunks: countOf(cost.chunks, "chunk"), summaries: countOf(cost.summaries, "summary") }),
    others ? t("indexing.others", { count: others }) : "",
    cost.llm_calls ? t("cost.paid", { count: cost.llm_calls, ...tokens }) : t("cost.no_call"),
  ]);
}

function namesOf(items) {
  const names = items.slice(0, NAMED_AT_MOST).map((one) => one.title || one.id);
  const more = items.length - names.length;
  return more ? t("list.more", { names: commaList(names), count: more }) : commaList(names);
}
