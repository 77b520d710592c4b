// Corrections of entities: a form for the entity that is shown, and the list of all edits with "Undo".

import { announce, block, busy, choice, clear, errorBox, h, labeled } from "./dom.js";
import { t } from "./i18n.js";

/** What the form does: the messages for it, its field and the effect; the change that it sends; `next` is the entity shown then. */
const EDIT_KINDS = {
  alias: {
    action: "edit.alias",
    field: "edit.alias.field",
    effect: "edit.alias.effect",
    change: (label, other) => ({ alias: { [other]: label } }),
  },
  merge: {
    action: "edit.merge",
    field: "edit.merge.field",
    effect: "edit.merge.effect",
    change: (label, other) => ({ alias: { [label]: other } }),
    next: (other) => other,
  },
  separate: {
    action: "edit.separate",
    field: "edit.separate.field",
    effect: "edit.separate.effect",
    change: (label, other) => ({ separate: [[label, other]] }),
  },
  stop: {
    action: "edit.stop",
    effect: "edit.stop.effect",
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
    this.heading = h("h2", { id: "edits-heading", tabindex: "-1" }, t("edits.title"));
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
    const none = h("li", { class: "hint" }, t("edits.none"));
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
    const text = t(`edits.is.${edit.kind}`, { first: edit.names[0], last: edit.names[1] });
    const button = h("button", { type: "button", class: "quiet small", "data-writes": "all", "aria-label": t("edits.undo", { edit: text }) }, t("do.undo"));
    button.addEventListener("click", () =>
      busy(button, async () => {
        if (!(await this.send({ undo: [edit.id] }, this.problem))) return;
        announce(t("edits.undone", { edit: text }));
        this.heading.focus();
        await this.changed();
      }),
    );
    return h("li", null, h("span", { dir: "auto" }, text), button);
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
    const kind = choice("edit-kind", Object.entries(EDIT_KINDS).map(([value, { action }]) => [value, t(action)]), { "aria-describedby": "edit-effect" });
    const name = h("input", { id: "edit-name", autocomplete: "off", maxlength: "4000" });
    const field = labeled("", name);
    const effect = h("p", { class: "hint", id: "edit-effect" });
    const button = h("button", { type: "submit", "data-writes": "all" }, t("edits.correct"));
    const problem = h("div");
    const update = () => {
      const chosen = EDIT_KINDS[kind.value];
      field.hidden = !chosen.field;
      name.required = Boolean(chosen.field);
      field.querySelector("label").textContent = chosen.field ? t(chosen.field) : "";
      effect.textContent = t(chosen.effect, { label });
    };
    kind.addEventListener("change", update);
    update();
    const form = h("form", { class: "stack", "aria-label": t("edits.correct.label", { label }) }, labeled(t("edits.correction"), kind), field, effect, button, problem);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      busy(button, () => this.apply(EDIT_KINDS[kind.value], label, name.value.trim(), problem));
    });
    return h("details", { class: "card" }, h("summary", null, t("edits.form")), form);
  }

  async apply({ action, change, next }, label, other, problem) {
    if (!(await this.send(change(label, other), problem))) return;
    announce(t("edits.done", { action: t(action) }));
    this.heading.focus(); // the form belongs to the entity before
    await this.changed(next?.(other));
  }
}
