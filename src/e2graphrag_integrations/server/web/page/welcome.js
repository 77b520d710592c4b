// The first screen of the retrieval test: what the index holds, and questions that it can be asked.

import { api } from "./api.js";
import { clear, h } from "./dom.js";
import { commaList, countOf, languageName, rich, t } from "./i18n.js";

/** Show what the index holds until a question is asked. */
export async function renderWelcome(root, info, state) {
  const { indexed, lack } = state.current ?? { indexed: info.stats.documents, lack: "" };
  if (!indexed) {
    const add = rich("welcome.add", { link: h("a", { href: "#/documents" }, t("welcome.add.link")) });
    clear(root, h("p", { class: "empty welcome" }, lack ? state.reasons() : info.read_only ? t("welcome.none") : add));
    return;
  }
  const before = root.querySelector("section.welcome");
  const box = before ?? h("section", { class: "welcome stack", "aria-label": t("welcome.label") }, h("p", { class: "hint" }, t("welcome.hint", { name: info.name })));
  if (!before) clear(root, box);
  let held;
  try {
    held = await api.get("overview");
  } catch {
    return; // the sentence is enough, and the banner says that the server does not answer
  }
  const hadFocus = box.contains(document.activeElement);
  clear(box, h("p", { class: "hint" }, t("welcome.hint", { name: info.name })), factsOf(held), examples(held.questions));
  if (hadFocus) box.querySelector("a")?.focus();
}

function factsOf(held) {
  const languages = Object.keys(held.languages);
  const facts = [countOf(held.documents, "document"), countOf(held.chunks, "chunk"), countOf(held.names, "name"), commaList(languages.map(languageName))];
  return h("p", { class: "facts", id: "index-facts" }, facts.filter(Boolean).map((text) => h("span", null, text)));
}

function examples(questions) {
  if (!questions.length) return null;
  return h("div", null, h("h2", null, t("welcome.try")), h("ul", { class: "examples" }, questions.map((text) => h("li", null, exampleLink(text)))));
}

/** Return a link that asks a question with the settings of the form, which the address has. */
function exampleLink(text) {
  const address = () => {
    const values = new URLSearchParams(location.hash.split("?")[1] ?? "");
    values.set("q", text);
    return `#/ask?${values}`;
  };
  const link = h("a", { class: "example", href: address(), dir: "auto" }, text);
  link.addEventListener("click", () => {
    link.setAttribute("href", address());
    document.getElementById("question").focus(); // the link is about to disappear
  });
  return link;
}
