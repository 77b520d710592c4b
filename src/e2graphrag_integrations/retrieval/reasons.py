"""`Reason`: why a node was found, or a step of a retrieval, as a code with values and as a text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

_SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        # Why a node was found
        "rank": "{list}: rank {rank}",
        "rank_through": "{list}: rank {rank}, through {name}",
        "rank_in_sentence": "{list}: rank {rank}, through {name}, in the sentence {sentence!r}",
        "below_all_lists": "below the last rank of every list",
        "reranked": "reranked: {score:.4f}, rank {rank} before",
        "boosted": "boost {factor:.3g} ({parts}): rank {rank} before",
        "layer": "layer {layer}: rank {rank} of {total}",
        "cosine": "cosine {cosine:.4f}",
        "occurrence": "occurrence {occurrence:.4f}",
        "coverage": "coverage {coverage:.4f}",
        "query_entities": "query entities: {count}",
        "filled": "filled up to k: cosine {cosine:.4f}",
        "under_summary": "under summary {node}",
        "over_windows": "summary over {count} of the best {total} windows",
        "ending": "among the last {count} chunk(s) of the text, because it asks for the end",
        "superseded": "older version: superseded by {newest!r}",
        "superseded_then": "older version: superseded by {newest!r} as of {date}",
        "newest": "newest of {count} versions",
        "newest_then": "newest of {count} versions as of {date}",
        "overtakes": "before an older version",
        "holds_from": "holds as of {date}: from {start}",
        "holds_to": "holds as of {date}: to {end}",
        "holds_between": "holds as of {date}: from {start} to {end}",
        "enriched_sentence": "enrichment: nearer than the text is {sentence!r}",
        "enriched_words": "enrichment: only the added words contain {words}",
        # Why a route was chosen
        "mode": "the mode is {mode}",
        "own_chunks": "the mode is {mode}; no pair shares a chunk, so each entity adds its own "
        "chunks",
        "whole": "the question is about a text as a whole",
        "names": "the index knows {names}; {name!r} leads to {count} of {total} chunks",
        "more_names": "the index knows {names} and {more} more; {name!r} leads to {count} of "
        "{total} chunks",
        "nothing_known": "the index knows no name or noun of the question",
        "few_with_noun": "no name, but few chunks with its nouns: {nouns} in {count} of {total} "
        "chunks",
        "few_with_nouns": "no name, but few chunks with its nouns: {nouns} together in {count} of "
        "{total} chunks",
        "many_with_noun": "no name, and many chunks with its nouns: {nouns} in {count} of {total} "
        "chunks",
        "many_with_nouns": "no name, and many chunks with its nouns: {nouns} together in {count} "
        "of {total} chunks",
        "roots": "tree traversal from {count} root(s)",
        "hops": "entities within {hops} hop(s) share chunks",
        "no_entity": "no query entity is in the index",
        "one_entity": "ranked by occurrence: one query entity",
        "no_pair": "ranked by occurrence: no close pair shares a chunk",
        "by_vector": "a search by vector",
        "nothing_passes": "no node passes the filter; {rest}",
        "nothing_relevant": "no node has a relevance of at least {least:g}; {rest}",
        "left_out": "as of {date}, {count} node(s) left out; {rest}",
        # Why earlier turns were used
        "specific_words": "the words of the question have the specificity {specificity:.2f}",
        "no_name": "the question has no name",
        "opened": "the question leaves open what it is about with {words!r}",
        "refers_back": "the question refers back with {words!r}",
        # The steps of a retrieval, a line for each
        "route": "route: {route}",
        "why": "why: {reason}",
        "entities": "entities: {names}",
        "codes": "codes: {codes}",
        "graph": "graph: weight {weight:.2f}, specificity {specificity:.2f}",
        "history": "history: {text}",
        "history_names": "history: {text}",
        "history_unused": "history: {text}",
        "unlinked": "no entity: {names}",
        "pair": "pair: {a} - {b}: {hops} hop(s), {chunks} shared chunk(s)",
        "far_pair": "pair: {a} - {b}: too far apart, {chunks} shared chunk(s)",
        "tried_hops": "h = {hops}: {pairs} pair(s), {chunks} chunk(s)",
        "chosen_hops": "h = {hops}: {pairs} pair(s), {chunks} chunk(s)  <- chosen",
        "selected": "layer {layer}: {selected} of {nodes} node(s) selected",
        "overview": "breadth: an overview, so a token budget covers many topics",
        "end_first": "ending: the last part of the text comes first",
        "mixture": "mixture ({why}): {summaries} summary(s) and {chunks} chunk(s)",
        "title_links": "title links: {text}",
        "bridges": "bridges: {text}",
        "boosts": "boosts: {settings}: {changed} of {candidates} candidate(s) have a factor other "
        "than 1",
        "list": "list {list}: {count} node(s)",
        "languages": "languages: question {question}; nodes {nodes}",
        "foreign": "language: the question is in {language}, but no document is",
        "vectors": "vectors: {text}",
        "incomplete": "incomplete: without {shards}",
        "freshness": "freshness: {text}",
        "cut": "cut by {limit}: {count} node(s)",
        "time": "time: {timings}",
    }
)
"""The sentence of each code."""

_JOINTS: Mapping[str, str] = MappingProxyType({"nouns": " and "})
"""What joins the texts of a value in a sentence, if not a comma."""


class Reason(str):
    """A reason, or a step, as an English text, with the code and values from which it was made.

    It is a string, so everything that shows or stores texts can use it. An interface in another
    language makes its own text from the code and the values.

    Args:
        code: One of the codes of this module.
        values: What the sentence names: numbers, texts, tuples of texts, or another reason.

    >>> reason = Reason("rank", list="entities", rank=1)
    >>> reason, reason.code, dict(reason.values)
    ('entities: rank 1', 'rank', {'list': 'entities', 'rank': 1})
    """

    __slots__ = ("code", "values")

    code: str
    values: Mapping[str, Any]

    def __new__(cls, code: str, /, **values: Any) -> Self:
        """Return the reason with its sentence."""
        shown = {name: _shown(name, value) for name, value in values.items()}
        one = super().__new__(cls, _SENTENCES[code].format_map(shown))
        one.code, one.values = code, MappingProxyType(values)
        return one

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.code, dict(self.values))


def _restore(code: str, values: Mapping[str, Any]) -> Reason:
    return Reason(code, **values)


def _shown(name: str, value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    return _JOINTS.get(name, ", ").join(map(repr, value))
