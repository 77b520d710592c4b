// Elements, built without markup: no text of a document is ever parsed as HTML.

import { sentences, t } from "./i18n.js";

const SAFE_LINK = /^(#|blob:|jobs\/)/;

/**
 * Return a new element.
 *
 * Functions in `properties` become event listeners (`onclick`), `true` an empty attribute, and all other
 * values attributes; null and false are left out. Children are elements, or texts.
 */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name.startsWith("on") || name === "style") throw new Error(`${name} cannot be a text`);
    else if (name === "href" && !SAFE_LINK.test(value)) throw new Error("unsafe link");
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Remove all children of an element, and add new ones. */
export function clear(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Announce a text to screen readers. */
export function announce(text) {
  const region = document.getElementById("announcements");
  if (region) region.textContent = text;
}

/** Show a text in a status element, or hide it if the text is empty. */
export function setStatus(element, text) {
  element.textContent = text;
  element.hidden = !text;
}

/** Return an alert with the message of an error. */
export function errorBox(error) {
  return h("p", { class: "error", role: "alert" }, error?.message || String(error));
}

/** Return why a list is empty: `unknown` if a search found nothing, else `empty`, and what is not indexed yet. */
export function nothingFound(source, search, unknown, empty) {
  const reasons = source.reasons?.() ?? "";
  return search.trim() ? sentences([unknown, reasons]) : reasons || empty;
}

/** Return the value of a color variable of the style sheet in the current theme. */
export function themeColor(name) {
  const probe = h("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** Disable a button while a task runs; errors pass through. The button keeps the focus. */
export async function busy(button, task) {
  const hadFocus = document.activeElement === button;
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  try {
    return await task();
  } finally {
    button.disabled = Boolean(button.dataset.blocked);
    button.removeAttribute("aria-busy");
    if (hadFocus && document.activeElement === document.body) button.focus();
  }
}

/** Disable a button while there is a reason, which becomes its title. */
export function block(button, reason) {
  button.dataset.blocked = reason;
  button.title = reason;
  button.disabled = Boolean(reason) || button.getAttribute("aria-busy") === "true";
}

/** Return a label above a form control, with an optional hint below it. */
export function labeled(text, control, hint) {
  const label = h("label", { for: control.id }, text);
  if (!hint) return h("div", { class: "field" }, label, control);
  const note = h("p", { class: "hint", id: `${control.id}-hint` }, hint);
  control.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, label, control, note);
}

/** Return a select element with `[value, text]` options. */
export function choice(id, options, properties) {
  return h("select", { id, ...properties }, options.map(([value, text]) => h("option", { value }, text)));
}

/** Ask for confirmation in a dialog; resolve to whether it was given. */
export function confirmed(title, text, action) {
  return new Promise((resolve) => {
    const heading = h("h2", { id: "confirm-title" }, title);
    const dialog = h(
      "dialog",
      { class: "confirm", "aria-labelledby": "confirm-title" },
      heading,
      h("p", null, text),
      h(
        "div",
        { class: "row" },
        h("button", { type: "button", class: "danger", onclick: () => dialog.close("yes") }, action),
        h("button", { type: "button", class: "quiet", onclick: () => dialog.close("") }, t("do.cancel")),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Save a text as a file. */
export function download(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Return a function that calls another once it has not been called for a while. */
export function debounced(task, milliseconds = 250) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => task(...values), milliseconds);
  };
}

/** Return a button that copies a text. */
export function copyButton(text, label = t("do.copy")) {
  const button = h("button", { type: "button", class: "quiet small" }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = t("do.copied");
      announce(t("do.copied"));
    } catch {
      button.textContent = t("do.copy_by_hand");
    }
    setTimeout(() => {
      button.textContent = label;
    }, 2_000);
  });
  return button;
}
