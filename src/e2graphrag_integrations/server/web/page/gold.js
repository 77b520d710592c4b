// The gold answers of a question: what is known to be right, as ids, spans and texts.

import { h, labeled } from "./dom.js";
import { t } from "./i18n.js";

/** Return the fields with the gold answers of the question. */
export function goldFields() {
  const gold = h("textarea", { id: "gold", rows: 3, spellcheck: "false", placeholder: "letter-1\nletter-1:0-23" });
  const answer = h("textarea", { id: "gold-answers", rows: 3 });
  const element = h(
    "details",
    { id: "gold-box" },
    h("summary", null, t("gold.title")),
    h(
      "div",
      { class: "settings" },
      labeled(t("gold.ids"), gold, t("gold.ids.hint")),
      labeled(t("gold.answers"), answer, t("gold.answers.hint")),
    ),
  );
  const lines = (control) => control.value.split("\n").map((line) => line.trim()).filter(Boolean);

  function read() {
    const parsed = lines(gold).map(goldOf);
    return {
      ids: parsed.filter((one) => typeof one === "string"),
      spans: parsed.filter(Array.isArray),
      answers: lines(answer),
    };
  }

  function write({ ids = [], spans = [], answers = [] }) {
    gold.value = [...ids.map(writeId), ...spans.map(writeSpan)].join("\n");
    answer.value = answers.join("\n");
    element.open ||= Boolean(gold.value || answer.value);
  }

  function has(node) {
    return lines(gold).includes(goldLine(node));
  }

  function toggle(node) {
    const own = goldLine(node);
    const all = lines(gold);
    const rest = all.filter((line) => line !== own);
    gold.value = (rest.length < all.length ? rest : [...all, own]).join("\n");
    element.open ||= Boolean(gold.value);
  }

  /** Return the gold answers as `/retrieve` expects them. */
  function request() {
    const { ids, spans, answers } = read();
    return { ids, spans: spans.map(([id, start, end]) => ({ document_id: id, start, end })), answers };
  }

  return {
    element,
    read,
    request,
    write,
    has,
    toggle,
    values: () => ({ gold: gold.value.trim(), answers: answer.value.trim() }),
    restore: (values) => {
      gold.value = values.gold ?? "";
      answer.value = values.answers ?? "";
      element.open ||= Boolean(gold.value || answer.value);
    },
  };
}

/** Return an id, or a span as a list. A JSON string is an id, and a JSON list a span. */
function goldOf(line) {
  if (/^["[]/.test(line)) {
    try {
      const value = JSON.parse(line);
      if (typeof value === "string" || Array.isArray(value)) return value;
    } catch {
      // An id may begin with a bracket.
    }
  }
  const match = /^(.+):(\d+)\s*[-–]\s*(\d+)$/.exec(line);
  return match ? [match[1], Number(match[2]), Number(match[3])] : line;
}

/** Return a hit as a gold line: the span of a chunk, which stays valid when its document is edited, or the id of a summary. */
function goldLine(node) {
  return node.level ? writeId(node.node_id) : writeSpan([node.document_id, node.start, node.end]);
}

function writeId(id) {
  return typeof goldOf(id) === "string" && goldOf(id) === id ? id : JSON.stringify(id);
}

function writeSpan(span) {
  const [document, start, end] = Array.isArray(span) ? span : [span.document_id, span.start, span.end];
  const text = `${document}:${start}-${end}`;
  return Array.isArray(goldOf(text)) && goldOf(text)[0] === document ? text : JSON.stringify([document, start, end]);
}
