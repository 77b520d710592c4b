"""Finds the words and names of a question in the sentences, rows and items of a text.

A window of a list or a table has many rows, so most windows contain all words of "Leo Marsh" or of
"small black scarf", and only one contains them in one row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress, pairwise
from math import fsum, log1p
from typing import NamedTuple

import numpy as np

from e2graphrag_integrations._utils.lazy import LazySequence
from e2graphrag_integrations.entities.matching.linking import Link
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.retrieval.names.name_sentences import between_spaces
from e2graphrag_integrations.retrieval.ranking.question_terms import QuestionTerms
from e2graphrag_integrations.retrieval.strategy import Candidate
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.contents import is_table_of_contents
from e2graphrag_integrations.text.lines import row_blocks
from e2graphrag_integrations.text.sentences import sentence_starts
from e2graphrag_integrations.text.tokens import count_tokens
from e2graphrag_integrations.text.words import is_function_word, terms_of

_COMPARED = 32
"""Number of windows that are compared."""

_POWER = 3.0
"""Exponent of the share of the question in one sentence: half of it is often by chance."""

_READ = 6
"""Number of windows of a document that are split into sentences."""

_MOST_WORDS = 64
"""Number of the rarest words of a question that are looked for: an attacker may write thousands."""

_LINE_END = "[.!?。！？\n]"
_ITEM = re.compile(r"\n(?=[ \t]*(?:[-*•–]|\d{1,3}[.)])[ \t])")


class Part(NamedTuple):
    """A sentence, a row or an item of a text.

    Attributes:
        start: Where it begins.
        text: Its text.
        is_header: Whether it is the header of a table, which belongs to all rows.
    """

    start: int
    text: str
    is_header: bool


def parts_of(text: str) -> list[Part]:
    """Return the sentences, rows and items of a text, in order; together they are the text."""
    blocks = row_blocks(text)
    items = (match.end() for match in _ITEM.finditer(text))
    starts = sorted({*sentence_starts(text, blocks=blocks), *items})
    headers = {block.header.start for block in blocks if block.header is not None}
    return [
        Part(start, text[start:end], start in headers)
        for start, end in pairwise([*starts, len(text)])
    ]


def without_headers(text: str) -> str:
    """Return a text without the headers of its tables, which belong to rows of all its windows."""
    if "\n" not in text:
        return text
    for block in reversed(row_blocks(text)):
        if block.header is not None:
            text = text[: block.header.start] + text[block.header.end :]
    return text


class QuestionParts:
    """Finds the words and the full names of a question in the parts of texts.

    A name of several words counts besides its words, because a part may contain these separately.

    Args:
        terms: The words of the question, with their inflected forms.
        links: The names in the question.
    """

    def __init__(self, terms: QuestionTerms, links: Iterable[Link]) -> None:
        self._terms = terms
        telling = [one for one in dict.fromkeys(terms.words) if not is_function_word(one)]
        self._words = sorted(telling, key=terms.bm25.idf, reverse=True)[:_MOST_WORDS]
        self._word_of = {form: word for word in self._words for form in terms.spelled(word)}
        longest_first = sorted(self._word_of, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join([_LINE_END, *map(re.escape, longest_first)]))
        mentions = (*terms.query.names, *(link.mention for link in links))
        own = dict.fromkeys(tuple(terms_of(mention)) for mention in mentions)
        self._names = [between_spaces(one) for one in own if len(one) > 1]

    def found(self, part: Part, about: frozenset[str] = frozenset()) -> frozenset[str]:
        """Return the words and names of the question in a part of a text; none in a header.

        Args:
            part: The part.
            about: Words of the question that the part need not repeat, as the text is about them.
        """
        if part.is_header:
            return frozenset()
        words = terms_of(part.text)
        found = {self._word_of[one] for one in self._word_of.keys() & set(words)} | about
        if self._names and found:
            text = between_spaces(words)
            own = about.issuperset
            found.update(name for name in self._names if name in text or own(name.split()))
        return frozenset(found)

    def about(self, texts: Sequence[str], windows: Sequence[int]) -> list[frozenset[str]]:
        """Return the words of the question that stand above each window and not in it.

        They are in the title of its document, the headings of its section or the header of its
        table, with which BM25 indexes it.

        Args:
            texts: The texts of the windows; empty ones are about nothing.
            windows: Their numbers.
        """
        contained = self._terms.contain(self._words, np.asarray(windows, dtype=np.int64))
        found = []
        for text, column in zip(texts, contained.T.tolist(), strict=True):
            words = list(compress(self._words, column)) if text else []
            own = set(terms_of(without_headers(text))) if words else set[str]()
            found.append(
                frozenset(one for one in words if own.isdisjoint(self._terms.spelled(one)))
            )
        return found

    def most_words(self, text: str) -> int:
        """Return about how many words of the question one line or sentence of a text contains.

        It may count a word that is a part of another one, and takes little time.
        """
        most, line = 0, set[str]()
        for match in self._pattern.finditer(text.lower()):
            word = self._word_of.get(match.group())
            if word is None:  # the end of a line or a sentence
                most, line = max(most, len(line)), set()
            else:
                line.add(word)
        return max(most, len(line))


def weights_of(parts: Iterable[frozenset[str]]) -> Mapping[str, float]:
    """Return the weight of each word by the number of parts that contain it."""
    found = list(parts)
    counts = Counter(word for part in found for word in part)
    return {word: log1p(len(found) / count) for word, count in counts.items()}


def best_start(text: str, tokens: int, question: QuestionParts, counter: TokenCounter) -> int:
    """Return where the sentences begin that contain most of the question's words, by their rarity.

    The words of the best sentence count twice. Of starts with equally many words, the last one is
    returned: the text after the words of a question answers it more often than that before them.

    Args:
        text: The passage.
        tokens: Number of tokens that the sentences may have.
        question: Finds the words of the question.
        counter: Counts the tokens.
    """
    parts = parts_of(text)
    found = [question.found(part) for part in parts]
    weights = weights_of(found)
    sizes = [count_tokens(counter, part.text) for part in parts]
    best, start = 0.0, 0
    for first, part in enumerate(parts):
        covered, most = set(found[first]), _weight(found[first], weights)
        room = tokens - sizes[first]
        for size, more in zip(sizes[first + 1 :], found[first + 1 :], strict=True):
            room -= size
            if room < 0:
                break
            covered |= more
            most = max(most, _weight(more, weights))
        weight = _weight(covered, weights) + most
        if weight and weight >= best:
            best, start = weight, part.start
    return start


def _weight(words: Iterable[str], weights: Mapping[str, float]) -> float:
    return fsum(weights[word] for word in words)


def prefer_sentences(
    candidates: Sequence[Candidate],
    question: QuestionParts,
    texts_of: Callable[[Sequence[int]], list[str]],
    snapshot: Snapshot,
    weight: float,
) -> Sequence[Candidate]:
    """Reorder the best windows of each document by the share of the question in one sentence.

    They are ordered by `score * (1 + weight * (1 - share) * coverage ** 3)`, where `coverage` is
    how much of the question the best part of a window contains, and `share` is the share of the
    other windows that contain as much. They take the places and the scores that windows of this
    document had before, so that other documents keep theirs.

    Args:
        candidates: Windows, best first.
        question: Finds the question in parts of texts.
        texts_of: Reads the texts of nodes, given their rows.
        snapshot: The search index.
        weight: How much more a window counts that alone has the whole question in one part.

    Returns:
        A lazy sequence, best first.
    """
    top = candidates[:_COMPARED]
    by_document: dict[int, list[int]] = {}
    for place, one in enumerate(top):
        if one.best_span is not None:
            by_document.setdefault(int(snapshot.nodes.document[one.row]), []).append(place)
    groups = [places for places in by_document.values() if len(places) > 1]
    compared = [top[place] for places in groups for place in places]
    texts = _texts(compared, texts_of)
    about = question.about(texts, _windows(compared, snapshot)) if texts else []
    read = iter(zip(texts, about, strict=True))
    best = list(top)
    for places in groups:
        coverage = _coverage([next(read) for _ in places], question)
        values = {}
        for place, own in zip(places, coverage, strict=True):
            share = (sum(other >= own for other in coverage) - 1) / (len(places) - 1)
            values[place] = top[place].score * (1 + weight * (1 - share) * own**_POWER)
        ordered = sorted(places, key=lambda place: -values[place])
        for place, chosen in zip(places, ordered, strict=True):
            best[place] = replace(top[chosen], score=top[place].score)

    def candidate(place: int) -> Candidate:
        return best[place] if place < len(best) else candidates[place]

    return LazySequence(len(candidates), candidate)


def _texts(
    candidates: Sequence[Candidate], texts_of: Callable[[Sequence[int]], list[str]]
) -> list[str]:
    """Return the texts of windows, without those of tables of contents."""
    nodes = texts_of([one.row for one in candidates])
    spans = [one.best_span for one in candidates]
    texts = [
        node[span.start : span.end]
        for node, span in zip(nodes, spans, strict=True)
        if span is not None
    ]
    return ["" if is_table_of_contents(text) else text for text in texts]


def _windows(candidates: Sequence[Candidate], snapshot: Snapshot) -> list[int]:
    """Return the numbers of windows, given as candidates."""
    rows = np.unique([one.row for one in candidates])
    windows, owners = snapshot.dense.windows_of(rows)
    spans = snapshot.window_spans[windows].tolist()
    owner_rows = rows[owners].tolist()
    number_of = {
        (row, *span): window
        for window, row, span in zip(windows.tolist(), owner_rows, spans, strict=True)
    }
    return [number_of[one.row, *one.best_span] for one in candidates if one.best_span is not None]


def _coverage(texts: Sequence[tuple[str, frozenset[str]]], question: QuestionParts) -> list[float]:
    """Return how much of the question the best part of each text contains, in [0, 1].

    With each text are the words of the question that it is about.
    """
    counts = [question.most_words(text) + len(about) for text, about in texts]
    for place in sorted(range(len(texts)), key=lambda place: -counts[place])[: 2 * _READ]:
        text, about = texts[place]
        counts[place] = question.most_words(without_headers(text)) + len(about)
    best = sorted(range(len(texts)), key=lambda place: -counts[place])[:_READ]
    read = {place for place in best if counts[place] >= max(1, counts[best[0]] - 1)}
    parts = [
        [question.found(part, about) for part in parts_of(text)] if place in read else []
        for place, (text, about) in enumerate(texts)
    ]
    weights = weights_of(one for own in parts for one in own)
    total = fsum(weights.values())
    if not total:
        return [0.0] * len(texts)
    return [max((_weight(one, weights) for one in own), default=0.0) / total for own in parts]
