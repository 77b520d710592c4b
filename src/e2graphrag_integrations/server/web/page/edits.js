// Corrections of entities: a form for the entity that is shown, and the list of all edits with "Undo".

import { announce, block, busy, choice, clear, errorBox, h, labeled } from "./dom.js";

/** What the form does: its field, the effect, and the change that it sends; `next` is the entity shown then. */
const EDIT_KINDS = {
  alias: {
    action: "Add an alias",
    field: "Alias",
    effect: (label) => `This name will mean ${label}.`,
    change: (label, other) => ({ alias: { [other]: label } }),
  },
  merge: {
    action: "Merge into another entity",
    field: "Entity",
    effect: (label) => `All mentions of ${label} will be mentions of this entity.`,
    change: (label, other) => ({ alias: { [label]: other } }),
    next: (other) => other,
  },
  separate: {
    action: "Separate from another name",
    field: "Other name",
    effect: (label) => `${label} and this name will never mean the same entity.`,
    change: (label, other) => ({ separate: [[label, other]] }),
  },
  stop: {
    action: "Stop: not an entity",
    effect: (label) => `${label} will leave the graph, also for documents that you add later.`,
    change: (label) => ({ stop: [label] }),
    next: () => "",
  },
};

/**
 * The form and the list of edits. `changed(entity)` is called after a change with the entity to show, an empty text
 * for the most mentioned one, or undefined for the same place.
 */
export class EntityEditor {
  constructor(source, state, changed) {
    this.source = source;
    this.state = state;
    this.changed = changed;
    this.heading = h("h2", { id: "edits-heading", tabindex: "-1" }, "Corrections");
    this.list = h("ul", { class: "edit-list" });
    this.problem = h("div");
    this.form = h("div", { class: "graph-edit" });
    this.element = h("section", { class: "card stack", "aria-labelledby": "edits-heading" }, this.heading, this.problem, this.list);
    state.addEventListener("state-changed", () => this.applyState());
    this.load();
  }

  async load() {
    try {
      this.draw((await this.source.edits()).items);
      clear(this.problem);
    } catch (error) {
      clear(this.problem, errorBox(error));
    }
  }

  draw(edits) {
    const none = h("li", { class: "hint" }, "There are none. “Correct this entity” below the drawing adds one.");
    clear(this.list, edits.length ? edits.map((edit) => this.renderEdit(edit)) : none);
    this.applyState();
  }

  /** Disable the buttons while the server would refuse a change. */
  applyState() {
    for (const place of [this.list, this.form]) {
      for (const button of place.querySelectorAll("[data-writes]")) block(button, this.state.blocked(true));
    }
  }

  renderEdit(edit) {
    const button = h("button", { type: "button", class: "quiet small", "data-writes": "all", "aria-label": `Undo: ${edit.text}` }, "Undo");
    button.addEventListener("click", () =>
      busy(button, async () => {
        if (!(await this.send({ undo: [edit.id] }, this.problem))) return;
        announce(`Undone: ${edit.text}`);
        this.heading.focus();
        await this.changed();
      }),
    );
    return h("li", null, h("span", null, edit.text), button);
  }

  /** Send a change, and show the edits after it; return whether it applies. */
  async send(change, problem) {
    try {
      const { items } = await this.source.edit(change);
      clear(problem);
      this.draw(items);
      return true;
    } catch (error) {
      clear(problem, errorBox(error));
      return false;
    }
  }

  /** Show the form for an entity, or remove it without one. */
  show(label) {
    clear(this.form, label ? this.renderForm(label) : null);
    this.applyState();
  }

  renderForm(label) {
    const kind = choice("edit-kind", Object.entries(EDIT_KINDS).map(([value, { action }]) => [value, action]), { "aria-describedby": "edit-effect" });
    const name = h("input", { id: "edit-name", autocomplete: "off", maxlength: "4000" });
    const field = labeled("", name);
    const effect = h("p", { class: "hint", id: "edit-effect" });
    const button = h("button", { type: "submit", "data-writes": "all" }, "Correct");
    const problem = h("div");
    const update = () => {
      const chosen = EDIT_KINDS[kind.value];
      field.hidden = !chosen.field;
      name.required = Boolean(chosen.field);
      field.querySelector("label").textContent = chosen.field ?? "";
      effect.textContent = chosen.effect(label);
    };
    kind.addEventListener("change", update);
    update();
    const form = h("form", { class: "stack", "aria-label": `Correct ${label}` }, labeled("Correction", kind), field, effect, button, problem);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      busy(button, () => this.apply(EDIT_KINDS[kind.value], label, name.value.trim(), problem));
    });
    return h("details", { class: "card" }, h("summary", null, "Correct this entity"), form);
  }

  async apply({ action, change, next }, label, other, problem) {
    if (!(await this.send(change(label, other), problem))) return;
    announce(`${action}: done`);
    this.heading.focus(); // the form belongs to the entity before
    await this.changed(next?.(other));
  }
}
