// Keyboard shortcuts of the page, and the sheet that lists them.

import { h } from "./dom.js";
import { rich, t } from "./i18n.js";

const KEY_OF_SHORTCUTS = "e2graphrag:shortcuts";
const PREFIX_LASTS = 1_500; // milliseconds between "g" and the letter of a view
const VIEW_LETTERS = { a: "ask", d: "documents", g: "graph", t: "tree" };
const TERMS = ["hit", "passage", "name", "summary", "relevance", "gold", "alias"];
const SHEET = [
  ["keys.question", ["/"]],
  ...Object.entries(VIEW_LETTERS).map(([letter, view]) => [`keys.${view}`, ["g", letter], "keys.then"]),
  ["keys.next", ["j", "↓"], "keys.or"],
  ["keys.previous", ["k", "↑"], "keys.or"],
  ["keys.open", ["o", "Enter"], "keys.or"],
  ["keys.read", ["r"]],
  ["keys.why", ["w"]],
  ["keys.close", ["Esc"]],
  ["keys.help", ["?"]],
];

/** Listen to the keys, and let the button show the sheet. */
export function mountShortcuts(button) {
  let prefixed = 0; // when "g" was pressed
  button.addEventListener("click", showSheet);
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]") || !isOn()) return;
    const isPrefixed = event.timeStamp - prefixed < PREFIX_LASTS;
    prefixed = 0;
    if (isPrefixed && Object.hasOwn(VIEW_LETTERS, event.key)) goToView(VIEW_LETTERS[event.key]);
    else if (event.key === "g") prefixed = event.timeStamp;
    else if (event.key === "?") showSheet();
    else if (event.key === "/") writeQuestion();
    else if (!useOnHits(event)) return;
    event.preventDefault();
  });
}

function isTyping(element) {
  return element.matches?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
}

/** Return whether the reader has not switched the single keys off, which speech input may press by accident. */
function isOn() {
  try {
    return localStorage.getItem(KEY_OF_SHORTCUTS) !== "off";
  } catch {
    return true; // storage is blocked
  }
}

function goToView(view) {
  location.hash = `#/${view}`;
  document.getElementById("main").focus();
}

function writeQuestion() {
  const write = () => document.getElementById("question")?.focus();
  if (!document.getElementById("view-ask").hidden) write();
  else {
    addEventListener("hashchange", write, { once: true }); // the view is not there before
    location.hash = "#/ask";
  }
}

/** Use a key on the hits; return whether it means anything there. */
function useOnHits({ key, target }) {
  const hits = [...document.querySelectorAll("#view-ask:not([hidden]) .hit")];
  const current = hits.find((hit) => hit.classList.contains("is-current"));
  const isAtHit = target.matches?.(".hit article"); // else arrows scroll, and Enter presses what has the focus
  if (key === "j" || (key === "ArrowDown" && isAtHit)) return moveTo(hits, hits.indexOf(current) + 1);
  if (key === "k" || (key === "ArrowUp" && isAtHit)) return moveTo(hits, hits.indexOf(current) - 1);
  if (!current) return false;
  const reasons = current.querySelector(".why");
  if (key === "o" || (key === "Enter" && isAtHit)) current.querySelector(".hit-title a").click();
  else if (key === "r") current.querySelector(".read").click();
  else if (key === "w") reasons.open = !reasons.open;
  else if (key === "Escape" && reasons.open) reasons.open = false;
  else return false;
  return true;
}

function moveTo(hits, place) {
  hits[Math.max(0, Math.min(place, hits.length - 1))]?.querySelector("article").focus();
  return hits.length > 0;
}

function showSheet() {
  const keys = (names, joined) => {
    const [first, second] = names.map((name) => h("kbd", null, name));
    return joined ? rich(joined, { first, second }) : first;
  };
  const isUsed = h("input", { type: "checkbox", id: "keys-on" });
  isUsed.checked = isOn();
  isUsed.addEventListener("change", () => {
    try {
      localStorage.setItem(KEY_OF_SHORTCUTS, isUsed.checked ? "on" : "off");
    } catch {
      isUsed.checked = true; // storage is blocked, so they stay on
    }
  });
  const dialog = h(
    "dialog",
    { class: "keys", "aria-labelledby": "keys-title" },
    h("h2", { id: "keys-title" }, t("keys.title")),
    h("p", { class: "hint" }, t("keys.hint")),
    h("dl", null, SHEET.map(([what, names, joined]) => h("div", null, h("dt", null, keys(names, joined)), h("dd", null, t(what))))),
    h("label", { class: "check" }, isUsed, t("keys.on")),
    h("h2", null, t("glossary.title")),
    h("dl", { class: "glossary" }, TERMS.map((term) => [h("dt", null, t(`glossary.${term}`)), h("dd", null, t(`glossary.${term}.is`))])),
    h("div", { class: "row" }, h("button", { type: "button", onclick: () => dialog.close() }, t("do.close"))),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
