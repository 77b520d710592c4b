// Sentences of the server about an answer, in the language of the page. The server makes them in English, also for the
// command line; one that is not known here is shown as it is.

import { commaList, t, wordFor } from "./i18n.js";

const MODE = (text) => wordFor("mode", text);

const REASONS = [
  [/^(?<list>[\w ]+): rank (?<rank>\d+)$/, "said.rank", { list: saidList }],
  [/^(?<list>[\w ]+): rank (?<rank>\d+), through (?<name>.+), in the sentence (?<sentence>.+)$/s, "said.rank_in", { list: saidList }],
  [/^(?<list>[\w ]+): rank (?<rank>\d+), through (?<name>.+)$/s, "said.rank_through", { list: saidList }],
  [/^below the last rank of every list$/, "said.below"],
  [/^reranked: (?<score>\S+), rank (?<rank>\d+) before$/, "said.reranked"],
  [/^boost (?<factor>\S+) \((?<parts>.*)\): rank (?<rank>\d+) before$/s, "said.boost"],
  [/^layer (?<layer>\d+): rank (?<rank>\d+) of (?<total>\d+)$/, "said.layer"],
  [/^cosine (?<value>\S+)$/, "said.cosine"],
  [/^occurrence (?<value>\S+)$/, "said.occurrence"],
  [/^coverage (?<value>\S+)$/, "said.coverage"],
  [/^query entities: (?<number>\d+)$/, "said.query_entities"],
  [/^filled up to k: cosine (?<value>\S+)$/, "said.filled"],
  [/^under summary (?<node>\S+)$/, "said.under"],
  [/^summary over (?<part>\d+) of the best (?<total>\d+) windows$/, "said.over"],
  [/^among the last (?<number>\d+) chunk\(s\) of the text, because it asks for the end$/, "said.last"],
  [/^older version: superseded by (?<newest>'.*'|".*") as of (?<date>.+)$/s, "said.superseded_then", { newest: saidNames }],
  [/^older version: superseded by (?<newest>.+)$/s, "said.superseded", { newest: saidNames }],
  [/^newest of (?<number>\d+) versions as of (?<date>.+)$/, "said.newest_then"],
  [/^newest of (?<number>\d+) versions$/, "said.newest"],
  [/^before an older version$/, "said.overtaken"],
  [/^holds as of (?<date>.+?): (?<bounds>(?:from|to) .+)$/s, "said.holds"],
];

const ROUTES = [
  [/^as of (?<date>.+?), (?<number>\d+) node\(s\) left out; (?<rest>.*)$/s, "said.left_out", { rest: saidRoute }],
  [/^no node passes the filter; (?<rest>.*)$/s, "said.nothing_passes", { rest: saidRoute }],
  [/^no node has a relevance of at least (?<value>\S+); (?<rest>.*)$/s, "said.nothing_relevant", { rest: saidRoute }],
  [/^the mode is (?<mode>\w+)$/, "said.mode", { mode: MODE }],
  [/^the mode is (?<mode>\w+); no pair shares a chunk, so each entity adds its own chunks$/, "said.own_chunks", { mode: MODE }],
  [/^the question is about a text as a whole$/, "said.whole"],
  [/^the index knows (?<names>.+) and (?<more>\d+) more; (?<name>.+) leads to (?<number>\d+) of (?<total>\d+) chunks$/s, "said.knows_more", { names: saidNames, name: saidNames }],
  [/^the index knows (?<names>.+); (?<name>.+) leads to (?<number>\d+) of (?<total>\d+) chunks$/s, "said.knows", { names: saidNames, name: saidNames }],
  [/^the index knows no name or noun of the question$/, "said.knows_nothing"],
  [/^no name, but few chunks with its nouns: (?<where>.+)$/s, "said.few_nouns", { where: saidNouns }],
  [/^no name, and many chunks with its nouns: (?<where>.+)$/s, "said.many_nouns", { where: saidNouns }],
  [/^tree traversal from (?<number>\d+) root\(s\)$/, "said.roots"],
  [/^entities within (?<number>\d+) hop\(s\) share chunks$/, "said.hops"],
  [/^no query entity is in the index$/, "said.no_entity"],
  [/^ranked by occurrence: one query entity$/, "said.one_entity"],
  [/^ranked by occurrence: no close pair shares a chunk$/, "said.no_pair"],
];

const NOUNS = [
  [/^(?<nouns>.+) together in (?<number>\d+) of (?<total>\d+) chunks$/s, "said.nouns_together", { nouns: saidNames }],
  [/^(?<nouns>.+) in (?<number>\d+) of (?<total>\d+) chunks$/s, "said.nouns", { nouns: saidNames }],
];

/** Return the name of a ranked list. */
export function saidList(name) {
  const layer = /^layer[ _](\d+)$/.exec(name);
  return layer ? t("said.list_layer", { layer: layer[1] }) : wordFor("found_by", name);
}

/** Return a reason of a hit. */
export function saidReason(text) {
  return saidWith(REASONS, text);
}

/** Return the reason of the route of an answer. */
export function saidRoute(text) {
  return saidWith(ROUTES, text);
}

/** Return names that Python quoted, with the quotes of the language. */
function saidNames(text) {
  const names = [...text.matchAll(/'([^']*)'|"([^"]*)"/g)].map(([, single, double]) => t("said.quoted", { name: single ?? double }));
  return names.length ? commaList(names) : text;
}

function saidNouns(text) {
  return saidWith(NOUNS, text);
}

function saidWith(patterns, text) {
  for (const [pattern, key, parts] of patterns) {
    const groups = pattern.exec(text)?.groups;
    if (groups) return t(key, { ...groups, ...Object.fromEntries(Object.entries(parts ?? {}).map(([name, make]) => [name, make(groups[name])])) });
    if (pattern.test(text)) return t(key);
  }
  return text;
}
