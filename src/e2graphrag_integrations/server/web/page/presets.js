// Presets of a setting: what most questions need, and three other needs, without knowledge of the parameters.

import { choice, h, labeled } from "./dom.js";

const CUSTOM = "custom";
const PRESET_KEYS = ["mode", "strategy", "k", "token_budget", "dense_weight", "bm25_weight", "entity_weight", "title_link_weight"];
const PRESETS = {
  balanced: ["Balanced", "The defaults, for most questions.", {}],
  names: ["Exact names", "Names and words of the question count most.", { mode: "local", bm25_weight: "2", entity_weight: "2" }],
  overview: ["Overview", "Passages from the whole text, for questions about all of it.", { mode: "global", token_budget: "4000" }],
  context: ["More context", "More hits, for long answers and for comparisons.", { k: "25" }],
};

/** Return the choice of a preset, which replaces the settings that presets have, and no others. */
export function presetChoice(id, { values, write }) {
  const options = Object.entries(PRESETS).map(([key, [title]]) => [key, title]);
  const select = choice(id, [...options, [CUSTOM, "Custom"]]);
  const element = labeled("Preset", select, " ");
  const hint = element.querySelector(".hint");

  function show() {
    const own = presetPart(values());
    const found = Object.entries(PRESETS).find(([, [, , wanted]]) => JSON.stringify(presetPart(wanted)) === JSON.stringify(own));
    select.value = found ? found[0] : CUSTOM;
    select.querySelector(`[value="${CUSTOM}"]`).disabled = Boolean(found); // it is a state, not a choice
    hint.textContent = found ? found[1][1] : "The settings below are those of no preset.";
  }

  select.addEventListener("input", () => { // before the form looks at its values
    const rest = Object.entries(values()).filter(([key]) => !PRESET_KEYS.includes(key));
    write({ ...Object.fromEntries(rest), ...PRESETS[select.value][2] });
    show();
  });
  return { element: h("div", { class: "preset" }, element), show };
}

/** Return the values that presets have, in one order. */
function presetPart(values) {
  return PRESET_KEYS.filter((key) => Object.hasOwn(values, key)).map((key) => [key, values[key]]);
}
