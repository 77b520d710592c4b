// The best two sentences of a hit, and the names and words of the question in a text.

import { h } from "./dom.js";

const MAX_COLUMNS = 240; // of an excerpt; a wide character has two
const LEAD_COLUMNS = 50; // before the first mark, in an excerpt of a sentence that is too long
const MAX_TERMS = 80; // a question may have thousands of words

const UNSPACED_LETTERS = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u;
const WIDE_LETTERS = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\u3000-\u303f\uff00-\uff60]/u;
const ABBREVIATION = /(?:^|[\s(“"‘'])(?:\p{Lu}|Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|No|vs|e\.g|i\.e|z\.B|d\.h)\.\s*$/u;
const ENDING = /(?<=[a-z]{4})(?:es|ed|ing|s|e)$/; // of a regular form of an English word

/**
 * Return the names and words of a question that are marked, names first.
 *
 * A term has a `source` for regular expressions and a `weight`: a name says more than a word.
 */
export function termsOf(view) {
  const names = [...view.links.flatMap((link) => [link.mention, link.entity]), ...view.nodes.flatMap((node) => node.entities)];
  const words = wordsOf(view.words);
  const terms = new Map();
  names.sort((one, other) => other.length - one.length); // the longest one is marked where several match
  for (const name of names) addTerm(terms, nameSource(name), 3);
  for (const word of words) addTerm(terms, wordSource(word), 1);
  return [...terms.values()].slice(0, MAX_TERMS);
}

function addTerm(terms, source, weight) {
  if (source && !terms.has(source)) terms.set(source, { source, weight, pattern: new RegExp(source, "iu") });
}

/** Return the words of a text in lower case, also of scripts without spaces. */
function wordsOf(text) {
  const segments = new Intl.Segmenter(undefined, { granularity: "word" }).segment(text.slice(0, 4_000));
  const words = Array.from(segments).filter((one) => one.isWordLike).map((one) => one.segment.toLowerCase().replace(/['’]s$/, ""));
  return words.filter((word) => word.length > 1 || UNSPACED_LETTERS.test(word) || /\d/.test(word));
}

/** Return a text as a pattern that matches it. */
export function escaped(text) {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

function bounded(source, text) {
  return UNSPACED_LETTERS.test(text) ? source : `(?<![\\p{L}\\p{M}\\p{N}])${source}(?![\\p{L}\\p{M}\\p{N}])`;
}

/** Return the pattern of a name, which does not match inside of a longer word. */
export function nameSource(name) {
  const parts = name.match(/[\p{L}\p{M}\p{N}]+/gu);
  return parts ? bounded(parts.map(escaped).join("[^\\p{L}\\p{N}]{1,3}"), name) : "";
}

/** Return the pattern of a word and of its regular forms: *machines* is also found as *machine*. */
function wordSource(word) {
  if (!/^[a-z]{3,}$/.test(word)) return bounded(escaped(word), word);
  return bounded(`(?:${word}|${word.replace(ENDING, "")}(?:e|s|es|ed|ing)?)`, word);
}

/** Return a text in parts: strings, and marks for the terms. */
export function marked(text, terms) {
  if (!terms.length) return [text];
  const pattern = new RegExp(terms.map((term) => term.source).join("|"), "giu");
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    parts.push(text.slice(end, match.index), h("mark", null, match[0]));
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)].filter((part) => part !== "");
}

/** Return a name as the question or the hits write it: the index has it in lower case. */
export function writtenName(entity, { links, nodes }) {
  const mention = links.find((one) => one.entity === entity)?.mention ?? entity;
  if (mention.toLowerCase() === entity.toLowerCase() && mention !== mention.toLowerCase()) return mention;
  const source = nameSource(entity);
  const texts = source ? nodes.map((node) => node.pieces.map((piece) => piece.text).join("")) : [];
  const found = texts.flatMap((text) => text.match(new RegExp(source, "giu")) ?? []);
  return (found.find((one) => one !== one.toUpperCase() && one !== one.toLowerCase()) ?? found[0] ?? entity).replace(/\s+/g, " ");
}

/**
 * Return the two sentences of the best window that have most of the terms, as one line of text. Sentences of the same
 * document in `seen` are left out if others have a term, too; those of the excerpt are added to it.
 */
export function excerptOf(node, terms, seen = new Set()) {
  const sentences = blocksOf(node).flatMap(windowSentences);
  if (!sentences.length) return "";
  const gains = sentences.map((one) => terms.filter((term) => term.pattern.test(one.text)));
  const found = sentences.map((one, index) => {
    const next = sentences[index + 1];
    const isPair = next?.block === one.block && columnsOf(one.text) + columnsOf(next.text) <= MAX_COLUMNS && (hasEnd(next.text) || gains[index + 1].length > 0);
    const own = new Set([...gains[index], ...(isPair ? gains[index + 1] : [])]);
    // A pair that begins with a term is better than one that ends with it, and sentences are better than headings.
    const isHeading = !hasEnd(one.text) && !(isPair && hasEnd(next.text));
    const gain = (weightOf(own) + weightOf(gains[index]) / 1_000) / (isHeading ? 2 : 1);
    const parts = isPair ? [one.text, next.text] : [one.text];
    return { gain, text: isPair ? joinedSentences(...parts) : one.text, keys: parts.map((part) => `${node.document_id}\n${part}`) };
  });
  found.sort((one, other) => other.gain - one.gain); // stable: the first of equal ones
  const best = found.find((one) => one.gain > 0 && !one.keys.some((key) => seen.has(key))) ?? found[0];
  for (const key of best.keys) seen.add(key);
  return shortenedTo(best.text, terms);
}

/** Return whether a sentence has a mark at its end, which headings and lines of lists do not have. */
function hasEnd(sentence) {
  return /\p{P}$/u.test(sentence);
}

/** Join two sentences; one without an end, such as a heading, gets a dash. */
function joinedSentences(first, second) {
  if (/[。！？…」』”]$/u.test(first) && UNSPACED_LETTERS.test(first)) return first + second;
  return hasEnd(first) ? `${first} ${second}` : `${first} – ${second}`;
}

function weightOf(terms) {
  return [...terms].reduce((sum, term) => sum + term.weight, 0);
}

/** Return whether a piece of a node belongs to its best window. */
export function isInWindow(piece, { best }) {
  return Boolean(best) && piece.start >= best.start && piece.end <= best.end && piece.end > piece.start;
}

/** Return the texts of a node without gaps, each with the range of its best window, if it has one. */
function blocksOf(node) {
  const blocks = [];
  node.pieces.forEach((piece, index) => {
    const isBest = isInWindow(piece, node);
    const isNew = !index || (node.level === 0 && piece.start > node.pieces[index - 1].end);
    if (isNew) blocks.push({ text: "", from: -1, to: -1, isContinued: index > 0 || node.start > 0 });
    const block = blocks.at(-1);
    if (isBest && block.from < 0) block.from = block.text.length;
    block.text += piece.text;
    if (isBest) block.to = block.text.length;
  });
  const withBest = blocks.filter((block) => block.from >= 0);
  return withBest.length ? withBest : blocks.map((block) => ({ ...block, from: 0, to: block.text.length }));
}

/** Return the sentences of a block that are in its window for the most part, or else those that touch it. */
function windowSentences(block) {
  const all = sentencesOf(block.text, block.isContinued).map((one) => ({ ...one, block, inside: Math.min(one.end, block.to) - Math.max(one.start, block.from) }));
  const inside = all.filter((one) => 2 * one.inside >= one.end - one.start);
  return inside.length ? inside : all.filter((one) => one.inside > 0);
}

/** Return the sentences of a text with their places. Lines that were wrapped at a fixed width are joined. */
function sentencesOf(text, isContinued) {
  const joined = text.replace(/^([^\n]+)\n(?=\S)/, isContinued ? "$1 " : "$&").replace(/([^\n]{45,})\n(?=\S)/g, "$1 ");
  const segments = Array.from(new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(joined));
  const sentences = [];
  let start = 0;
  segments.forEach(({ segment, index }, number) => {
    const end = index + segment.length;
    const own = joined.slice(start, end);
    const next = segments[number + 1]?.segment ?? "";
    // "Mr." does not end a sentence, and neither does a question that is quoted in it.
    if (next && !segment.endsWith("\n") && (ABBREVIATION.test(own) || /^\p{Ll}/u.test(next))) return;
    const line = withoutMarkup(own).replace(/\s+/g, " ").trim().replace(/^_(?=[^_]*$)|(?<=^[^_]*)_$/, ""); // emphasis goes on
    if (/[\p{L}\p{N}]/u.test(line)) sentences.push({ start, end, text: line });
    start = end;
  });
  return sentences;
}

/** Return a text without the signs of Markdown for headings and emphasis, for display only. */
export function withoutMarkup(text) {
  return text
    .replace(/^[ \t]*#{1,6}[ \t]+/gm, "")
    .replace(/(?<![\p{L}\p{N}_])_(?=[^\s_])([^_\n]*[^\s_])_(?![\p{L}\p{N}_])/gu, "$1")
    .replace(/(?<![\p{L}\p{N}*])(\*{1,3})(?=[^\s*])([^*\n]*[^\s*])\1(?![\p{L}\p{N}*])/gu, "$2");
}

function columnsOf(text) {
  return Array.from(text).reduce((sum, letter) => sum + (WIDE_LETTERS.test(letter) ? 2 : 1), 0);
}

/** Return the part of a text around its first term, if all of it is too long. */
function shortenedTo(text, terms) {
  const letters = Array.from(text);
  const width = columnsOf(text);
  if (width <= MAX_COLUMNS) return text;
  const size = Math.floor((MAX_COLUMNS * letters.length) / width);
  const lead = Math.floor((LEAD_COLUMNS * letters.length) / width);
  const places = terms.map((term) => text.search(term.pattern)).filter((place) => place >= 0);
  const first = places.length ? Array.from(text.slice(0, Math.min(...places))).length : 0;
  const start = Math.max(0, Math.min(first - lead, letters.length - size));
  const part = letters.slice(start, start + size).join("");
  const isCutBefore = start > 0;
  const isCutAfter = start + size < letters.length;
  const whole = part.replace(isCutBefore ? /^\S{1,30}\s/ : "", "").replace(isCutAfter ? /\s\S{1,30}$/ : "", "");
  return `${isCutBefore ? "… " : ""}${whole}${isCutAfter ? " …" : ""}`;
}
