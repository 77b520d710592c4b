// Presets of a setting: what most questions need, and three other needs, without knowledge of the parameters.

import { choice, h, labeled } from "./dom.js";
import { t } from "./i18n.js";

const CUSTOM = "custom";
const PRESET_KEYS = ["mode", "strategy", "k", "token_budget", "dense_weight", "bm25_weight", "entity_weight", "title_link_weight"];
const PRESETS = {
  balanced: {},
  names: { bm25_weight: "2", entity_weight: "2" },
  overview: { mode: "global", token_budget: "4000" },
  context: { k: "25" },
};

/** Return the choice of a preset, which replaces the settings that presets have, and no others. */
export function presetChoice(id, { values, write }) {
  const select = choice(id, [...Object.keys(PRESETS), CUSTOM].map((key) => [key, t(`preset.${key}`)]));
  const element = labeled(t("field.preset"), select, " ");
  const hint = element.querySelector(".hint");

  function show() {
    const own = presetPart(values());
    const found = Object.keys(PRESETS).find((key) => JSON.stringify(presetPart(PRESETS[key])) === JSON.stringify(own));
    select.value = found ?? CUSTOM;
    select.querySelector(`[value="${CUSTOM}"]`).disabled = Boolean(found); // it is a state, not a choice
    hint.textContent = t(`preset.${select.value}.hint`);
  }

  select.addEventListener("input", () => { // before the form looks at its values
    const rest = Object.entries(values()).filter(([key]) => !PRESET_KEYS.includes(key));
    write({ ...Object.fromEntries(rest), ...PRESETS[select.value] });
    show();
  });
  return { element: h("div", { class: "preset" }, element), show, chosen: () => (select.value === CUSTOM ? "" : t(`preset.${select.value}`)) };
}

/** Return the values that presets have, in one order. */
function presetPart(values) {
  return PRESET_KEYS.filter((key) => Object.hasOwn(values, key)).map((key) => [key, values[key]]);
}
