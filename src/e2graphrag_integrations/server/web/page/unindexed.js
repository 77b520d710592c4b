// The files that were chosen, but not indexed, each with the reason. They stay until the reader removes them.

import { clear, h } from "./dom.js";
import { t } from "./i18n.js";

const OPEN_AT_MOST = 10; // names of one reason; longer lists are closed at first
const KEY_OF_FILES = "e2graphrag:unindexed:";

/** Forget the lists of all indexes. */
export function forgetFiles() {
  try {
    for (const key of Object.keys(sessionStorage)) if (key.startsWith(KEY_OF_FILES)) sessionStorage.removeItem(key);
  } catch {
    // Storage is blocked, so there is nothing to forget.
  }
}

/** A list of files with reasons, which the browser keeps while its tab is open. */
export class UnindexedFiles {
  constructor(indexName) {
    this.key = KEY_OF_FILES + indexName;
    this.element = h("section", { class: "card stack", id: "unindexed", "aria-labelledby": "unindexed-title", hidden: true });
    this.reasons = new Map(this.stored());
    this.show();
  }

  stored() {
    try {
      const found = JSON.parse(sessionStorage.getItem(this.key) ?? "[]");
      return found.filter((one) => Array.isArray(one) && one.length === 2);
    } catch {
      return []; // storage is blocked
    }
  }

  /** Add files with their reasons, as `[name, reason]`. */
  add(entries) {
    for (const [name, reason] of entries) this.reasons.set(name, reason);
    this.keep();
  }

  /** Forget files that are tried again. */
  remove(names) {
    for (const name of names) this.reasons.delete(name);
    this.keep();
  }

  keep() {
    try {
      sessionStorage.setItem(this.key, JSON.stringify([...this.reasons]));
    } catch {
      // Storage is blocked: the list lasts until the page is closed.
    }
    this.show();
  }

  show() {
    const groups = new Map();
    for (const [name, reason] of this.reasons) groups.set(reason, [...(groups.get(reason) ?? []), name]);
    const close = h("button", { type: "button", class: "quiet small", onclick: () => this.remove([...this.reasons.keys()]) }, t("unindexed.clear"));
    this.element.hidden = !groups.size;
    clear(
      this.element,
      h("h2", { id: "unindexed-title" }, t("unindexed.title", { count: this.reasons.size })),
      h("ul", { class: "unindexed" }, [...groups].map(([reason, names]) => h("li", null, filesWith(reason, names)))),
      h("div", { class: "row" }, close),
    );
  }
}

function filesWith(reason, names) {
  const [first] = names;
  if (names.length === 1) return [h("strong", { dir: "auto" }, first), reason.startsWith(`${first} `) ? reason.slice(first.length) : t("unindexed.file", { reason })];
  const list = h("ul", { class: "files" }, names.map((name) => h("li", { dir: "auto" }, name)));
  return h("details", { open: names.length <= OPEN_AT_MOST }, h("summary", null, t("unindexed.files", { count: names.length, reason })), list);
}
