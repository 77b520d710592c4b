// The jobs that write to the index: their progress, and their results.

import { api, followJob, reasonText, withQuery } from "./api.js";
import { announce, busy, errorBox, clear, h, setStatus } from "./dom.js";
import { commaList, countOf, formatSeconds, t, wordFor } from "./i18n.js";
import { warningList } from "./upload.js";

const LISTED_AT_MOST = 500; // documents in one answer of the server

/**
 * The jobs, each in a box. Files that a job could not index are kept in `unindexed`; `changed()` is called after a
 * job, and `left()` when its box is closed.
 */
export class JobList {
  constructor({ indexState, unindexed, changed, left }) {
    this.indexState = indexState;
    this.unindexed = unindexed;
    this.changed = changed;
    this.left = left;
    this.element = h("div", { class: "stack" });
  }

  /** Remove the results of earlier jobs, which a change makes outdated. */
  closeFinished() {
    for (const box of this.element.querySelectorAll("[data-finished]")) box.remove();
  }

  /** Show the progress of a job, and its result. If it fails, the files with these names are kept as not indexed. */
  async start(id, title, names = []) {
    const stages = h("div", { class: "stages" });
    const status = h("p", { class: "hint", role: "status" }, t("told.starting"));
    const stop = h("button", { type: "button", class: "quiet small" }, t("do.stop"));
    const close = h("button", { type: "button", class: "quiet small", hidden: true }, t("do.close"));
    const box = h("section", { class: "card stack", "aria-label": title, "data-job": id }, h("h2", null, title), stages, status, h("div", { class: "row" }, stop, close));
    this.element.append(box);
    this.indexState.refresh();
    close.addEventListener("click", () => {
      box.remove();
      this.left();
    });
    stop.addEventListener("click", () =>
      busy(stop, async () => {
        try {
          await api.remove(`jobs/${encodeURIComponent(id)}`);
          setStatus(status, t("job.stopping"));
        } catch (error) {
          status.after(errorBox(error));
        }
      }),
    );
    try {
      const job = await followJob(id, (current) => {
        showStages(stages, current.progress ?? []);
        setStatus(status, t(current.state === "waiting" ? "job.waiting" : "job.running"));
      });
      showStages(stages, job.progress ?? []);
      const said = job.state === "stopped" ? t("job.stopped") : describeResult(job.result);
      setStatus(status, said);
      announce(said);
      const unread = Object.entries(job.result?.unread ?? {}).map(([name, reason]) => [name, reasonText(reason)]);
      for (const [name, reason] of unread) status.after(errorBox(reason.startsWith(`${name} `) ? reason : t("documents.problem", { document: name, reason })));
      for (const [document, reason] of Object.entries(job.result?.failed ?? {})) status.after(errorBox(t("documents.problem", { document, reason })));
      const warnings = job.result?.warnings ?? {};
      const found = warningList(warnings, Object.keys(warnings));
      if (found) status.after(found);
      this.unindexed.add(unread);
    } catch (error) {
      setStatus(status, "");
      status.after(errorBox(error));
      if (error.status === 200) await this.keepUnlisted(names, error.message); // else the job may have indexed them
    }
    stop.hidden = true;
    close.hidden = false;
    box.dataset.finished = "";
    await Promise.all([this.indexState.refresh(), this.changed()]);
  }

  /** Keep the files of a job that failed, except those that the list of documents shows as failed or waiting. */
  async keepUnlisted(names, reason) {
    if (!names.length) return;
    const pages = await Promise.allSettled(["failed", "pending"].map((status) => api.get(withQuery("documents", { status, limit: LISTED_AT_MOST }))));
    const listed = new Set(pages.flatMap((one) => one.value?.items ?? []).map((one) => one.id));
    this.unindexed.add(names.filter((name) => !listed.has(name)).map((name) => [name, reason]));
  }

  /** Follow the jobs that run already, for example after a reload. */
  async resume() {
    const running = await api.get("jobs");
    const ids = new Set([...this.element.querySelectorAll("[data-job]")].map((one) => one.dataset.job));
    for (const job of running.items) {
      if (["waiting", "running"].includes(job.state) && job.kind !== "evaluation" && !ids.has(job.id)) this.start(job.id, t("state.indexing"));
    }
  }
}

function showStages(box, progress) {
  clear(
    box,
    progress.map((one) => {
      const name = wordFor("stage", one.stage);
      return [
        h("span", null, name),
        h("progress", { max: Math.max(1, one.total), value: one.done, "aria-label": name }),
        h("span", { class: "hint" }, t("list.of", { count: one.done, total: one.total })),
      ];
    }),
  );
}

function describeResult(result) {
  if (!result) return t("job.done");
  const warned = Object.keys(result.warnings ?? {}).length;
  const failed = Object.keys({ ...result.unread, ...result.failed }).length;
  const parts = [
    t("job.indexed", { count: result.documents ?? 0 }),
    result.skipped?.length ? t("job.unchanged", { count: result.skipped.length }) : "",
    result.empty?.length ? t("job.without_text", { count: result.empty.length }) : "",
    warned ? t("job.warned", { count: warned }) : "",
    failed ? t("job.failed", { count: failed }) : "",
    result.llm_calls ? countOf(result.llm_calls, "call") : "",
    result.seconds?.total ? formatSeconds(result.seconds.total) : "",
  ];
  return t("job.done_with", { parts: commaList(parts.filter(Boolean)) });
}
