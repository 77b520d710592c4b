// The box that adds documents: files, then their cost, then the job.

import { api, reasonText } from "./api.js";
import { announce, busy, clear, errorBox, h } from "./dom.js";
import { countOf, formatBytes, formatNumber, t } from "./i18n.js";

const NO_FILE_NAME = /(?:^|\/)[\s.]|\s(?:\/|$)|[\\\u0000-\u001f\u007f-\u009f\u200b\u2028-\u202e\u2066-\u2069\ufeff]/u; // the server refuses these

/** Return the box that adds documents: files, then their cost, then the job. */
export function uploadBox(info, { jobs, unindexed, applyState }) {
  const { max_bytes: limit, max_files: most, suffixes } = info.upload;
  const fileInput = (id, label, options) => h("input", { type: "file", id, multiple: true, "aria-label": label, ...options, class: "visually-hidden", tabindex: "-1", "aria-hidden": "true" });
  const input = fileInput("upload", t("upload.choose"), { accept: suffixes.join(",") });
  const folder = fileInput("upload-folder", t("upload.choose_folder"), { webkitdirectory: true });
  const choose = h("button", { type: "button", class: "quiet", onclick: () => input.click() }, t("upload.choose"));
  const chooseFolder = h("button", { type: "button", class: "quiet", onclick: () => folder.click() }, t("upload.choose_folder"));
  const chosen = h("div", { class: "stack", role: "status" });
  const drop = h("div", { class: "drop" }, h("div", { class: "row" }, choose, chooseFolder), h("p", null, t("upload.drop")), h("p", { class: "hint" }, t("upload.hint", { size: formatBytes(limit) })), h("details", { class: "kinds" }, h("summary", null, t("upload.kinds")), h("p", { class: "hint" }, suffixes.join(" "))), input, folder);
  const box = h("section", { class: "card stack", "aria-label": t("upload.title") }, h("h2", null, t("upload.title")), drop, chosen);

  let control = null;

  async function estimate(files) {
    control?.abort(); // other files were chosen meanwhile: the server need not read these
    control = new AbortController();
    const { signal } = control;
    jobs.closeFinished();
    unindexed.remove(files.map((file) => file.name));
    const accepted = withoutRefused(files);
    clear(chosen, accepted.length ? h("p", { class: "hint" }, t("upload.reading", { count: accepted.length })) : null);
    if (!accepted.length) return;
    let cost;
    try {
      cost = await api.post("documents/estimate", formOf(accepted), signal);
    } catch (error) {
      if (!signal.aborted) clear(chosen, errorBox(error));
      return;
    }
    const reasons = new Map([
      ...Object.entries(cost.unread).map(([name, reason]) => [name, reasonText(reason)]),
      ...cost.skipped.map((id) => [id, t("upload.unchanged")]),
      ...cost.empty.map((id) => [id, t("upload.no_text")]),
    ]);
    unindexed.add(reasons);
    showCost(accepted.filter((file) => !reasons.has(file.name)), cost);
  }

  /** Return the files that can be sent, and keep the others with the reason. */
  function withoutRefused(files) {
    const names = new Set();
    const refused = [];
    let size = 0;
    const problemBeside = (file) => {
      if (names.has(file.name)) return t("upload.same_name");
      if (size + file.size > limit) return t("upload.too_large_together", { size: formatBytes(limit) });
      return names.size < most ? "" : t("upload.too_many", { most });
    };
    const accepted = files.filter((file) => {
      const reason = problemOf(file) || problemBeside(file);
      if (reason) {
        refused.push([names.has(file.name) ? t("upload.again", { name: file.name }) : file.name, reason]);
        return false;
      }
      names.add(file.name);
      size += file.size;
      return true;
    });
    unindexed.add(refused);
    if (refused.length) announce(t("unindexed.title", { count: refused.length }));
    return accepted;
  }

  function formOf(files, fields = {}) {
    const data = new FormData();
    for (const [name, value] of Object.entries(fields)) data.append(name, value);
    for (const file of files) data.append("files", file.content, file.name);
    return data;
  }

  function showCost(files, cost) {
    if (!files.length) {
      clear(chosen, h("p", { class: "hint" }, t("upload.none")));
      return;
    }
    const index = h("button", { type: "button", id: "index", "data-writes": "all" }, t("upload.index", { count: files.length }));
    const leave = () => {
      clear(chosen);
      choose.focus();
    };
    const cancel = h("button", { type: "button", class: "quiet", onclick: leave }, t("do.cancel"));
    const trouble = h("div");
    index.addEventListener("click", () =>
      busy(index, async () => {
        try {
          // Not more calls than were shown.
          const fields = { on_duplicate: "replace", max_llm_calls: cost.llm_calls };
          const { job_id: id } = await api.post("documents", formOf(files, fields));
          jobs.start(id, t("documents.indexing", { what: countOf(files.length, "file") }), files.map((file) => file.name));
          leave();
        } catch (error) {
          clear(trouble, errorBox(error));
        }
      }),
    );
    clear(
      chosen,
      h("ul", { class: "files" }, files.map((file) => h("li", { dir: "auto" }, file.name, h("span", { class: "hint" }, formatBytes(file.size))))),
      cost.replaces.length ? h("div", { class: "replaces" }, h("p", null, h("strong", null, t("upload.replaces", { count: cost.replaces.length }))), h("ul", { class: "files" }, cost.replaces.map((id) => h("li", { dir: "auto" }, id)))) : null,
      warningList(cost.warnings, files.map((file) => file.name)),
      costTable(files.length, cost),
      h("div", { class: "row" }, index, cancel),
      trouble,
    );
    applyState();
    index.focus();
  }

  function problemOf(file) {
    const name = file.name.toLowerCase();
    if (!suffixes.some((suffix) => name.endsWith(suffix))) return t("upload.unknown_kind");
    if (NO_FILE_NAME.test(file.name)) return t("upload.bad_name");
    if (file.size > limit) return t("upload.too_large", { size: formatBytes(file.size), limit: formatBytes(limit) });
    return file.size ? "" : t("upload.empty");
  }

  for (const one of [input, folder]) {
    one.addEventListener("change", () => {
      const files = withoutHidden([...one.files]).map((file) => named(file, file.webkitRelativePath.split("/").slice(1).join("/")));
      one.value = "";
      if (files.length) estimate(files);
      else if (one === folder) clear(chosen, h("p", { class: "hint" }, t("upload.no_files")));
    });
  }
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("is-over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("is-over"));
  drop.addEventListener("drop", async (event) => {
    event.preventDefault();
    drop.classList.remove("is-over");
    const files = await droppedFiles(event.dataTransfer);
    if (files.length) estimate(files);
  });
  return box;
}

/** Return what may be wrong with the texts of the files with these names; null if nothing is. */
export function warningList(warnings, names) {
  const found = names.filter((name) => warnings[name]);
  if (!found.length) return null;
  const texts = found.flatMap((name) => warnings[name]).map(reasonText);
  return h("div", { class: "warnings" }, h("p", null, h("strong", null, t("upload.warnings", { count: found.length }))), h("ul", { class: "files" }, texts.map((text) => h("li", { dir: "auto" }, text))));
}

const HIDDEN = /(?:^|\/)(?:\.|~\$|(?:desktop\.ini|thumbs\.db)$)/i; // also files that Windows and office programs hide

/** Return the files of a folder without hidden ones, such as `.DS_Store` and those in `.git`; files that were chosen one by one stay. */
function withoutHidden(files) {
  return files.filter((file) => !HIDDEN.test(file.webkitRelativePath));
}

/** Return a file by its path below the chosen folder, as `e2graphrag index` names it, or by its name. */
function named(content, path) {
  return { name: (path || content.name).normalize(), size: content.size, content }; // a Mac may decompose letters
}

/** Return the files that were dropped, also those in folders. */
async function droppedFiles(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()); // before the event ends
  if (!entries.some((entry) => entry?.isDirectory)) return [...transfer.files].map((file) => named(file));
  const dropped = entries.filter(Boolean);
  return (await Promise.all(dropped.map((entry) => filesIn(entry, dropped.length > 1 ? entry.name : "")))).flat();
}

/** Return the files of a dropped file or folder, in order, without hidden ones of folders. */
async function filesIn(entry, path) {
  if (entry.isFile) return [named(await new Promise((resolve, reject) => entry.file(resolve, reject)), path)];
  const reader = entry.createReader();
  const inside = [];
  for (;;) {
    const part = await new Promise((resolve, reject) => reader.readEntries(resolve, reject)); // at most 100
    if (!part.length) break;
    inside.push(...part);
  }
  const shown = inside.filter((one) => !HIDDEN.test(one.name));
  shown.sort((one, other) => one.name.localeCompare(other.name, undefined, { numeric: true }));
  return (await Promise.all(shown.map((one) => filesIn(one, path ? `${path}/${one.name}` : one.name)))).flat();
}

function costTable(documents, cost) {
  const rows = [
    [t("cost.documents"), formatNumber(documents)],
    [t("cost.chunks"), formatNumber(cost.chunks)],
    [t("cost.summaries"), formatNumber(cost.summaries)],
    [t("cost.calls"), formatNumber(cost.llm_calls)],
  ];
  if (cost.llm_calls) rows.push([t("cost.tokens"), t("cost.tokens.value", { in: cost.prompt_tokens, out: cost.completion_tokens })]);
  return h(
    "div",
    null,
    h("h3", null, t("cost.title")),
    h("dl", { class: "timings" }, rows.map(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
    cost.llm_calls ? null : h("p", { class: "hint" }, t("cost.no_call")),
  );
}
