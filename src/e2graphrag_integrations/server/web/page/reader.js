// The dialog that shows the text of a document, from its beginning or around the range of a hit.

import { api, withQuery } from "./api.js";
import { busy, clear, errorBox, h } from "./dom.js";
import { t } from "./i18n.js";
import { viewLink } from "./links.js";

const BEFORE_HIT = 2_000; // characters of the text before a hit
const PART = 20_000; // as many as the server sends at once

/** Show a document; with `start` and `end`, at this range, which is marked, and its `best` part more strongly. `closed` is called afterwards. */
export async function openReader({ id, title, start = 0, end = 0, best = null }, closed) {
  const text = h("div", { class: "document-text", tabindex: "0", role: "region", "aria-label": t("read.text"), dir: "auto" });
  const trouble = h("div");
  const earlier = h("button", { type: "button", class: "quiet small", hidden: true }, t("read.before"));
  const more = h("button", { type: "button", class: "quiet", hidden: true }, t("read.more"));
  const range = end > start ? { start, end } : {};
  const dialog = h(
    "dialog",
    { class: "wide-dialog", "aria-labelledby": "read-title" },
    h("h2", { id: "read-title", dir: "auto" }, title || id),
    earlier,
    text,
    trouble,
    h(
      "div",
      { class: "row" },
      more,
      h("a", { href: viewLink("tree", { document: id, ...range }), onclick: () => dialog.close() }, t("read.tree")),
      h("button", { type: "button", onclick: () => dialog.close() }, t("do.close")),
    ),
  );
  const shown = { from: Math.max(0, start - BEFORE_HIT), to: Math.max(0, start - BEFORE_HIT) };

  /** Load a part of the text, and put it at one end of what is shown. */
  async function load(from, to, put) {
    try {
      const part = await api.get(withQuery(`documents/${encodeURIComponent(id)}`, { start: from, end: to }));
      text.lang = part.language;
      text[put](...piecesOf(part, start, end, best));
      shown.from = Math.min(shown.from, part.start);
      shown.to = Math.max(shown.to, part.end);
      earlier.hidden = shown.from === 0;
      more.hidden = shown.to >= part.length;
      clear(trouble);
    } catch (error) {
      clear(trouble, errorBox(error));
    }
  }

  const close = () => dialog.close();
  addEventListener("hashchange", close); // another place is shown below
  earlier.addEventListener("click", () => busy(earlier, () => load(Math.max(0, shown.from - PART), shown.from, "prepend")));
  more.addEventListener("click", () => busy(more, () => load(shown.to, null, "append")));
  dialog.addEventListener("close", () => {
    removeEventListener("hashchange", close);
    dialog.remove();
    closed();
  });
  document.body.append(dialog);
  dialog.showModal();
  await load(shown.from, null, "append");
  const place = text.querySelector(".read-best") ?? text.querySelector("mark");
  place?.scrollIntoView({ block: "center" });
}

/** Return a part of a text, with a mark where it has the range. The server counts code points. */
function piecesOf(part, start, end, best) {
  const letters = Array.from(part.text);
  const cut = (from, to) => letters.slice(Math.max(0, from - part.start), Math.max(0, to - part.start)).join("");
  const from = best ? Math.max(start, best.start) : end;
  const to = best ? Math.min(end, best.end) : end;
  const inner = [cut(start, from), cut(from, to) ? h("span", { class: "read-best" }, cut(from, to)) : "", cut(to, end)].filter(Boolean);
  const range = inner.length ? h("mark", { class: "read-range" }, inner) : "";
  return [cut(part.start, start), range, cut(Math.max(start, end), part.end)].filter(Boolean);
}
