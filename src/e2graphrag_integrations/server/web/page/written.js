// An answer that a language model writes from the hits, only when its button is pressed. Its text is never markup, and
// each of its citations leads to a hit.

import { ApiError, api, postEvents, problemText } from "./api.js";
import { announce, busy, clear, debounced, errorBox, h, setStatus } from "./dom.js";
import { countOf, formatSeconds, sentences, t } from "./i18n.js";

const CITATION = /\[(\d{1,4}(?:\s*[,;]\s*\d{1,4})*)\]/g;
const KEPT = 20; // answers, because each of them was paid for

/** The answers to the questions of a page; `model` describes the model, and is null if there is none. */
export class WrittenAnswers {
  constructor(model) {
    this.model = model;
    this.panels = new Map();
  }

  /** Show a panel above the hits of each setting; `requests` has what was asked, by the name of the setting. */
  show(root, views, requests) {
    if (!this.model) return;
    const shown = new Set();
    for (const [name, view] of Object.entries(views)) {
      if (!view?.nodes.length) continue;
      const section = root.querySelector(`[data-setting="${name}"]`);
      const key = JSON.stringify([requests[name], view.nodes.map((node) => node.node_id)]);
      const panel = this.panels.get(key) ?? new WrittenPanel(this.model, requests[name]);
      this.panels.delete(key);
      this.panels.set(key, panel); // the newest is the last
      shown.add(key);
      section.querySelector(".answer-head").after(panel.element);
      panel.attach(section, Object.keys(views).length > 1 ? name : "");
    }
    for (const [key, panel] of this.panels) {
      if (shown.has(key)) continue;
      panel.stop();
      if (!panel.isComplete || this.panels.size > KEPT) this.panels.delete(key);
    }
  }
}

class WrittenPanel {
  constructor(model, request) {
    this.model = model;
    this.request = request;
    this.isComplete = false;
    this.section = null;
    this.control = null;
    this.estimated = null;
    this.passages = new Map();
    this.ask = h("button", { type: "button", class: "small write", onclick: () => this.write() }, t("written.answer"));
    this.halt = h("button", { type: "button", class: "quiet small", hidden: true, onclick: () => this.stop() }, t("do.stop"));
    this.cost = h("p", { class: "hint cost" });
    this.text = h("div", { class: "written-text", dir: "auto", hidden: true });
    this.end = h("p", { class: "hint usage", hidden: true });
    this.problem = h("div");
    this.element = h("section", { class: "written card" }, h("div", { class: "row" }, this.ask, this.halt, this.cost), this.problem, this.text, this.end);
  }

  /** Move to the section with the hits, and say what an answer costs. */
  attach(section, name) {
    this.section = section;
    this.element.setAttribute("aria-label", name ? t("written.answer_of", { name }) : t("written.answer"));
    section.querySelector(".floor-slider")?.addEventListener("input", debounced(() => this.estimate(), 400));
    this.estimate();
  }

  /** Return the question with the hits that are not gray. */
  body() {
    const hits = [...this.section.querySelectorAll(".hit:not(.is-below)")];
    return { ...this.request, nodes: hits.map((hit) => hit.dataset.node) };
  }

  async estimate() {
    const body = this.body();
    const key = JSON.stringify(body.nodes);
    if (this.estimated?.key === key || this.control) return;
    this.estimated = { key };
    this.ask.disabled = true;
    if (!body.nodes.length) {
      this.cost.textContent = t("written.no_hit");
      return;
    }
    try {
      const cost = await api.post("answers/estimate", body);
      if (this.estimated?.key !== key) return;
      this.estimated = { key, cost };
      const values = { hits: countOf(cost.passages.length, "hit"), model: cost.model, tokens: cost.prompt_tokens, most: cost.max_tokens };
      this.cost.textContent = sentences([t("written.cost", values), cost.left_out ? t("written.left_out", { count: cost.left_out }) : ""]);
      this.ask.disabled = false;
    } catch (error) {
      if (this.estimated?.key !== key) return;
      this.estimated = null;
      this.cost.textContent = error.message;
    }
  }

  write() {
    const body = { ...this.body(), max_prompt_tokens: this.estimated?.cost?.prompt_tokens }; // not more than was shown
    this.control = new AbortController();
    this.halt.hidden = false;
    clear(this.problem);
    clear(this.text);
    this.text.hidden = true;
    setStatus(this.end, "");
    this.isComplete = false;
    announce(t("written.reading"));
    return busy(this.ask, async () => {
      try {
        await this.receive(body);
      } catch (error) {
        if (error.name === "AbortError") this.finish(t("written.stopped"));
        else clear(this.problem, errorBox(error instanceof ApiError ? error : t("written.broken")));
      } finally {
        this.control = null;
        this.halt.hidden = true;
        this.ask.textContent = t("written.again");
        this.estimate();
      }
    });
  }

  async receive(body) {
    let text = "";
    let isDrawn = true;
    const draw = () => {
      isDrawn = true;
      this.text.hidden = !text;
      clear(this.text, this.marked(text));
    };
    await postEvents("answers", body, this.control.signal, (name, data) => {
      if (name === "start") this.passages = new Map(data.passages.map((one) => [one.number, one]));
      if (name === "text") {
        text += data.text;
        if (isDrawn) requestAnimationFrame(draw);
        isDrawn = false;
      }
      if (name === "failed") throw new ApiError(data.type, t("written.failed", { message: problemText(data) }), 200);
      if (name === "done") {
        const values = { model: this.model.model, in: data.prompt_tokens, out: data.completion_tokens, time: formatSeconds(data.seconds) };
        this.isComplete = true;
        this.finish(sentences([t(data.is_estimated ? "written.used_about" : "written.used", values), data.finish === "complete" ? "" : t(`written.${data.finish}`)]));
      }
    });
    draw();
    if (!this.isComplete) throw new Error("incomplete");
  }

  finish(text) {
    setStatus(this.end, text);
    announce(`${this.text.textContent} ${text}`);
  }

  stop() {
    this.control?.abort();
  }

  /** Return a text with a link for each number of a passage; other numbers in brackets stay plain. */
  marked(text) {
    const parts = [];
    let end = 0;
    for (const match of text.matchAll(CITATION)) {
      parts.push(text.slice(end, match.index), "[", match[1].split(/(\d+)/).map((part) => this.citation(part)), "]");
      end = match.index + match[0].length;
    }
    return [...parts, text.slice(end)];
  }

  citation(part) {
    const passage = this.passages.get(Number(part));
    if (!/^\d/.test(part) || !passage) return part;
    const go = (event) => {
      event.preventDefault(); // the hash has the question
      const card = this.section.querySelector(`[data-node="${CSS.escape(passage.node_id)}"] article`);
      card?.scrollIntoView({ block: "center" });
      card?.focus({ preventScroll: true });
    };
    return h("a", { class: "citation", href: location.hash || "#/ask", "aria-label": t("hit.label", { rank: part }), title: passage.document_id, onclick: go }, part);
  }
}
