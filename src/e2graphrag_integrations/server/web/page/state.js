// The state of the index, above every view: what is indexed, what waits, what failed, and who writes.

import { api } from "./api.js";
import { announce, busy, clear, errorBox, h } from "./dom.js";

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
    this.text = h("p", { class: "facts grow", role: "status" });
    this.button = h("button", { type: "button", class: "small", id: "resume", hidden: true });
    this.button.addEventListener("click", () => busy(this.button, () => this.resume(started)));
    clear(element, h("div", { class: "row" }, this.text, this.button), this.problem);
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
    } catch (error) {
      if (error.status === 401) return; // the log in follows
    }
    if (!document.hidden) this.timer = setTimeout(() => this.refresh(), this.current?.writing ? WHILE_WRITING : OTHERWISE);
  }

  show(state) {
    const before = this.current;
    this.current = state;
    if (JSON.stringify(before) === JSON.stringify(state)) return;
    const isWaiting = Boolean(state.lack);
    clear(this.text, [state.description, state.writing, state.blocked || (state.action ? "" : state.way_on)].filter(Boolean).map((text) => h("span", null, text)));
    this.button.textContent = state.action;
    this.button.hidden = !state.action;
    if (!state.action) clear(this.problem);
    this.element.classList.toggle("is-incomplete", isWaiting || Boolean(state.writing));
    this.element.hidden = false;
    this.dispatchEvent(new Event("state-changed"));
    if (before && (before.description !== state.description || (before.writing && !state.writing))) this.dispatchEvent(new Event("index-changed"));
  }

  async resume(started) {
    try {
      const { job_id: id } = await api.post("documents/resume");
      clear(this.problem);
      announce("Indexing");
      started(id);
    } catch (error) {
      clear(this.problem, errorBox(error));
    }
    await this.refresh();
  }

  /** Return why nothing was found, if documents are missing: what they are, and how to go on; else an empty text. */
  reasons() {
    if (!this.current) return "";
    const { indexed, description, lack, writing, way_on: wayOn } = this.current;
    return [indexed ? lack : description, lack && writing, wayOn].filter(Boolean).join(" ");
  }

  /** Return why documents can neither be added nor, with `isDeletion`, deleted; empty if they can. */
  blocked(isDeletion) {
    return (isDeletion ? this.current?.blocked_deletion : this.current?.blocked) ?? "";
  }
}
