// The state of the index, above every view: what is indexed, what waits, what failed, and who writes.

import { api } from "./api.js";
import { announce, busy, clear, errorBox, h } from "./dom.js";
import { commaList, formatDuration, formatNumber, formatRate, listed, sentences, t } from "./i18n.js";
import { writerName } from "./reasons.js";

const WHILE_WRITING = 3_000; // milliseconds between two looks at the state
const OTHERWISE = 30_000;

/**
 * The state that the server last told. Dispatches `state-changed` with each change, and `index-changed` when the
 * documents may have changed. `started(id)` is called with the job that the button starts.
 */
export class IndexState extends EventTarget {
  constructor(element, started) {
    super();
    this.element = element;
    this.current = null;
    this.timer = 0;
    this.reading = Promise.resolve();
    this.problem = h("div");
    this.unread = h("div"); // why the state cannot be read
    this.text = h("p", { class: "facts grow", role: "status" });
    this.button = h("button", { type: "button", class: "small", id: "resume", hidden: true });
    this.button.addEventListener("click", () => busy(this.button, () => this.resume(started)));
    clear(element, h("div", { class: "row" }, this.text, this.button), this.problem, this.unread);
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.refresh();
    });
  }

  /** Read the state now, and from then on again and again. A read that began before does not count. */
  refresh() {
    this.reading = this.reading.then(() => this.read());
    return this.reading;
  }

  async read() {
    clearTimeout(this.timer);
    try {
      this.show(await api.get("state"));
      this.tell("");
    } catch (error) {
      if (error.status === 401) return; // the log in follows
      this.tell(error.status ? error.message : ""); // else a banner says it
    }
    if (!document.hidden) this.timer = setTimeout(() => this.refresh(), this.current?.writing ? WHILE_WRITING : OTHERWISE);
  }

  /** Say why the state below may be old, once; an empty text means that it is not. */
  tell(message) {
    if (this.unread.textContent === message) return;
    clear(this.unread, message ? errorBox(message) : null);
    this.element.hidden = false;
  }

  show(state) {
    const before = this.current;
    this.current = state;
    if (JSON.stringify(before) === JSON.stringify(state)) return;
    const action = actionOf(state);
    const texts = [describeState(state), writingOf(state), paceOf(state), vectorsOf(state), missingOf(state), this.blocked(false) || (action ? "" : wayOn(state))];
    clear(this.text, texts.filter(Boolean).map((text) => h("span", null, text)));
    this.button.textContent = action;
    this.button.hidden = !action;
    if (!action) clear(this.problem);
    this.element.classList.toggle("is-incomplete", Boolean(state.lack || state.writing || state.missing_shards.length));
    this.element.hidden = false;
    this.dispatchEvent(new Event("state-changed"));
    const isChanged = before && (before.version !== state.version || before.description !== state.description);
    if (isChanged || (before?.writing && !state.writing)) this.dispatchEvent(new Event("index-changed"));
  }

  async resume(started) {
    try {
      const { job_id: id } = await api.post("documents/resume");
      clear(this.problem);
      announce(t("state.indexing"));
      started(id);
    } catch (error) {
      clear(this.problem, errorBox(error));
    }
    await this.refresh();
  }

  /** Return why nothing was found, if documents are missing: what they are, and how to go on; else an empty text. */
  reasons() {
    if (!this.current) return "";
    const { indexed } = this.current;
    const lack = lackOf(this.current);
    return sentences([indexed ? lack : describeState(this.current), lack && writingOf(this.current), wayOn(this.current)]);
  }

  /** Return why documents can neither be added nor, with `isDeletion`, deleted; empty if they can. */
  blocked(isDeletion) {
    if (this.current?.blocked) return t("state.blocked");
    return isDeletion && this.current?.blocked_deletion ? t("state.blocked_deletion") : "";
  }
}

/** Return what is indexed, what waits and what failed, as a sentence. */
function describeState({ indexed, processing, pending, failed }) {
  const others = Object.entries({ processing, pending, failed }).filter(([, count]) => count);
  const counts = others.map(([name, count]) => t(`state.${name}`, { count }));
  if (!indexed) return counts.length ? t("state.none_yet", { others: joined(counts) }) : t("state.empty");
  return t("state.all", { counts: joined([t("state.indexed", { count: indexed }), ...counts]) });
}

/** Return what answers lack, as a sentence; empty if they lack nothing. */
function lackOf({ processing, pending, failed }) {
  const waiting = pending + processing;
  const parts = waiting ? [t("state.lack_waiting", { count: waiting })] : [];
  if (failed) parts.push(t(waiting ? "state.lack_also_failed" : "state.lack_failed", { count: failed }));
  return parts.length ? t("state.lack", { parts: listedText(parts) }) : "";
}

/** Return who writes to the index and since when, as a sentence; empty if nobody does. */
function writingOf({ writer, since }) {
  if (writer) return t("state.writer", { writer: writerName(writer) });
  return since ? t("state.since", { since }) : "";
}

/** Return how fast documents are indexed, and the time left, as a sentence; empty if that is unknown. */
function paceOf({ documents_per_second: rate, seconds_left: left }) {
  if (rate === null || left === null) return "";
  return t("state.pace", { rate: formatRate(rate), left: formatDuration(left) });
}

/** Return which new vectors are computed or were interrupted, and how to go on; empty if there are none. */
function vectorsOf({ new_vectors: vectors }) {
  if (!vectors) return "";
  const { embedder, old, done, total, seconds_left: left, running, command } = vectors;
  const figures = { embedder, done: formatNumber(done), total: formatNumber(total) };
  return sentences([
    t(running ? "state.vectors" : "state.vectors_interrupted", figures),
    running && left !== null ? t("state.vectors_left", { left: formatDuration(left) }) : "",
    old ? t("state.vectors_until", { old }) : "",
    !running && command ? t("state.vectors_run", { command: `\`${command}\`` }) : "",
  ]);
}

/** Return which parts of the index cannot be asked, as a sentence; empty if all can. */
function missingOf({ missing_shards: names }) {
  return names.length ? t("state.missing", { names: commaList(names) }) : "";
}

/** Return the label of the button that indexes what waits; empty if this session cannot. */
function actionOf({ action, resumable }) {
  return action ? t("state.action", { count: resumable }) : "";
}

/** Return how to index what is not indexed, as a sentence; empty if nothing waits. */
function wayOn(state) {
  const { processing, pending, failed, stored, resumable, writer, since, action, command } = state;
  const count = processing + pending + failed;
  if (!count) return "";
  if (writer || since) return t("state.ask_again");
  if (action) return t("state.press", { action: actionOf(state) });
  const ways = [resumable ? `\`${command}\`` : "", stored ? t("state.build") : ""].filter(Boolean);
  return ways.length ? t("state.run", { count, ways: listedText(ways) }) : t("state.later");
}

/** Return counts as one clause. */
function joined(counts) {
  return counts.reduce((start, one, index) => start + t(index === counts.length - 1 ? "state.and" : "state.comma") + one);
}

function listedText(texts) {
  return listed(texts).flat().join("");
}
