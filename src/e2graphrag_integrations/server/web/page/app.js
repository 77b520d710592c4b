// The shell: views by the hash of the address, theme, log in, and the state of the connection.

import { api, connection, makeSource } from "./api.js";
import { mountAsk } from "./ask.js";
import { mountDocuments } from "./documents.js";
import { announce, busy, clear, errorBox, h, labeled } from "./dom.js";
import { mountGraph } from "./graph.js";
import { LANGUAGE, fillDocument, t } from "./i18n.js";
import { mountShortcuts } from "./shortcuts.js";
import { IndexState } from "./state.js";
import { mountTree } from "./tree.js";
import { forgetFiles } from "./unindexed.js";

const VIEWS = { ask: mountAsk, documents: mountDocuments, graph: mountGraph, tree: mountTree };
const THEME_KEY = "e2graphrag:theme";
const LANGUAGE_KEY = "e2graphrag:language";

const mounted = new Set();
const state = new IndexState(document.getElementById("state"), showJob);
let info = null;

function panel(name) {
  return document.getElementById(`view-${name}`);
}

/** Return the view and the parameters in the hash, such as `#/graph?entity=Weena`. */
function readAddress() {
  const match = /^#\/(\w+)(?:\?(.*))?$/.exec(location.hash);
  const view = match && Object.hasOwn(VIEWS, match[1]) ? match[1] : "ask";
  return { view, parameters: Object.fromEntries(new URLSearchParams(match?.[2] ?? "")) };
}

function showOnly(name) {
  for (const section of document.querySelectorAll(".view")) section.hidden = section !== panel(name);
}

function showView() {
  if (!info) return;
  const { view, parameters } = readAddress();
  const isNew = panel(view).hidden;
  showOnly(view);
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${t(`view.${view}`)} · ${info.name} · E2GraphRAG`;
  if (!mounted.has(view)) {
    mounted.add(view);
    VIEWS[view](panel(view), makeSource(state), info, state);
  }
  panel(view).dispatchEvent(new CustomEvent("view-shown", { detail: parameters }));
  if (isNew) {
    announce(t(`view.${view}`));
    state.refresh();
  }
}

/** Show the progress of a job that indexes documents. */
function showJob(id) {
  if (readAddress().view !== "documents") location.hash = "#/documents";
  showView();
  panel("documents").dispatchEvent(new CustomEvent("job-started", { detail: id }));
}

function showInfo() {
  document.getElementById("index-name").textContent = info.name;
  const badges = [];
  if (info.read_only) badges.push(h("span", { class: "badge", title: t("shell.read_only.why") }, t("shell.read_only")));
  if (info.scope) badges.push(h("span", { class: "badge", title: JSON.stringify(info.scope) }, t("shell.scoped")));
  clear(document.getElementById("badges"), badges);
  document.getElementById("log-out").hidden = !info.token_required;
}

/** Return whether the index has no document, not even one that waits or failed. */
function isEmpty() {
  const { indexed, pending, processing, failed } = state.current ?? { indexed: 1 };
  return !(indexed || pending || processing || failed);
}

async function start() {
  try {
    info = await api.get("info");
  } catch (error) {
    if (error.status === 401) return;
    showOnly("login");
    clear(panel("login"), h("h1", null, "E2GraphRAG"), errorBox(error));
    return;
  }
  showInfo();
  await state.refresh(); // the views say why they are empty
  if (!location.hash && isEmpty() && !info.read_only) history.replaceState(null, "", "#/documents"); // it takes files
  showView();
}

function showLogin() {
  if (!panel("login").hidden && panel("login").querySelector("form")) return;
  info = null;
  document.getElementById("log-out").hidden = true;
  document.getElementById("state").hidden = true;
  showOnly("login");
  const token = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true });
  const button = h("button", { type: "submit" }, t("login.title"));
  const problem = h("div");
  const form = h("form", { class: "card stack" }, labeled(t("login.token"), token, t("login.hint")), button, problem);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(button, async () => {
      try {
        await api.post("session", { token: token.value });
      } catch (error) {
        clear(problem, errorBox(error));
        token.focus();
        return;
      }
      location.reload(); // the address still has the view and the question
    });
  });
  clear(panel("login"), h("h1", null, t("login.title")), form);
  token.focus();
}

function watchConnection() {
  const banner = document.getElementById("banner");
  connection.addEventListener("unauthorized", showLogin);
  connection.addEventListener("offline", () => {
    banner.textContent = t("shell.offline");
    banner.hidden = false;
  });
  state.addEventListener("index-changed", () => {
    for (const name of mounted) panel(name).dispatchEvent(new Event("index-changed"));
  });
  connection.addEventListener("online", () => {
    banner.hidden = true;
    if (info) state.refresh();
    announce(t("shell.online"));
    if (!info) start();
    else for (const name of mounted) panel(name).dispatchEvent(new Event("connection-restored"));
  });
}

function setUpTheme() {
  const control = document.getElementById("theme");
  const root = document.documentElement;
  control.value = root.dataset.theme ?? "system";
  control.addEventListener("change", () => {
    if (control.value === "system") delete root.dataset.theme;
    else root.dataset.theme = control.value;
    try {
      localStorage.setItem(THEME_KEY, control.value);
    } catch {
      // Storage is blocked: the theme lasts until the page is closed.
    }
    root.dispatchEvent(new Event("theme-changed"));
  });
}

function setUpLanguage() {
  const control = document.getElementById("language");
  control.value = LANGUAGE.startsWith("zh") ? "zh" : "en";
  control.addEventListener("change", () => {
    try {
      localStorage.setItem(LANGUAGE_KEY, control.value);
    } catch {
      // Storage is blocked: the address keeps the language.
      location.search = new URLSearchParams({ lang: control.value });
      return;
    }
    location.reload(); // the address still has the view and the question
  });
}

function setUpTools() {
  const logOut = document.getElementById("log-out");
  logOut.addEventListener("click", () =>
    busy(logOut, async () => {
      try {
        await api.remove("session");
      } catch {
        // The banner says that the server does not answer.
        return;
      }
      forgetFiles();
      history.replaceState(null, "", location.pathname);
      location.reload();
    }),
  );
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the hash names the view
    document.getElementById("main").focus();
  });
}

fillDocument();
setUpTheme();
setUpLanguage();
setUpTools();
mountShortcuts(document.getElementById("keys"));
watchConnection();
addEventListener("hashchange", showView);
start();
