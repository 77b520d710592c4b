"""Entity extraction for Chinese: names of people, organizations and places, titles, and nouns."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.entities.chinese.names import without_chinese_address
from e2graphrag_integrations.entities.chinese.tagger import ChineseTagger, TaggedSentence, Token
from e2graphrag_integrations.errors import MissingDependencyError
from e2graphrag_integrations.languages.language import CHINESE
from e2graphrag_integrations.text.letters import HAN_LETTERS, has_han
from e2graphrag_integrations.text.sentences import sentence_starts, stripped_span
from e2graphrag_integrations.types import NOUN, Mention, Sentences, Span

BUNDLED_MODEL = "zh_e2g_sm"

INSTALL = "pip install 'e2graphrag-integrations[zh]'"
"""The command that installs what Chinese texts need."""

RULES_VERSION = 2
"""Version of the extractor's rules; part of its fingerprint. Raise it when they change."""

MAX_NAME = 20
"""Maximum length of a name, in characters. Longer ones are errors of the model."""

_LONGEST_SENTENCE = 400
"""Maximum length of a sentence for the model, in characters. Longer ones are split."""

_MIN_WRAPPED = 15
"""Minimum width of the lines of hard-wrapped text, in characters."""

_WRAPPED_WIDTH = 0.85
"""Minimum width of a line that continues in the next one, relative to the longest line."""

NAME = "NAME"
"""Label of names that are no people, organizations or places, or of an unknown type."""

_LABELS = {"PER": "PERSON", "ORG": "ORG", "LOC": "LOC"}
_NAME_TAGS = frozenset({"nz", "nw", "PER", "LOC"})
"""Labels of words that are names, too, where no name was found: prizes and products, works, and
what the first output layer takes for a person or a place."""

_NOUN_TAGS = frozenset({"n", "vn", "an", "s"})
"""Parts of speech of common nouns. `vn` are verbs that are used as nouns, as in 经济发展."""

_SPACE_RUN = re.compile(r"\s+")
_LINE_END = re.compile(r"[。！？；：…!?;:”’」』》）)]$")
_WIDE = {code: code - 0xFEE0 for code in (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B))}
_WIDE |= {code: code - 0xFEE0 for code in range(0xFF41, 0xFF5B)}
_TITLE = re.compile(rf"《([^《》\n]{{1,{MAX_NAME}}})》|〈([^〈〉\n]{{1,{MAX_NAME}}})〉")
_LATIN = re.compile("[A-Za-zÀ-ɏ0-9]")
_LATIN_WORD = r"[A-Za-zÀ-ɏ0-9]+(?:[-'’&.+#][A-Za-zÀ-ɏ0-9]+)*[+#]*"
_LATIN_NAME = re.compile(
    rf"(?<![A-Za-z0-9])(?=[A-Za-z0-9]*[A-ZÀ-Þ]){_LATIN_WORD}"
    rf"(?: (?:(?:of|the|and|de|von|van) )?(?=[A-ZÀ-Þ0-9]){_LATIN_WORD})*"
)
_DOT = re.compile(rf"(?<=[{HAN_LETTERS}])[•‧・･᛫⋅∙·](?=[{HAN_LETTERS}])")
_CLAUSE_END = re.compile(r"[，、,：:]|\s")
_LEADING = re.compile(r"[^\w]*")
_TRAILING = re.compile(r"[^\w]*$")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Simplifier:
    """Converts traditional to simplified characters with OpenCC.

    A name that is written in both ways becomes one entity. The conversion considers phrases:
    乾隆 stays as it is, although 乾 alone becomes 干.
    """

    def __init__(self) -> None:
        self._lock = process_lock()

    def check_installed(self) -> None:
        """Raise an error if OpenCC is not installed.

        Raises:
            MissingDependencyError: If it is not.
        """
        with self._lock:
            _ = self._converter

    def simplify(self, name: str) -> str:
        """Return a name in simplified characters.

        Raises:
            MissingDependencyError: If OpenCC is not installed.
        """
        if not has_han(name):
            return name
        with self._lock:
            return str(self._converter.convert(_LONE_SURROGATE.sub("\ufffd", name)))

    @lazy
    def _converter(self) -> Any:
        hint = f"Chinese texts need OpenCC: run `{INSTALL}`"
        with wrap_errors(MissingDependencyError, "OpenCC is not installed", hint):
            from opencc import OpenCC
        return OpenCC("t2s")


class ChineseEntityExtractor:
    """Finds entities in Chinese texts, with a small model that is part of the package.

    Entities are the names of people, organizations and places, other proper names, titles in 《》,
    names in Latin letters, and common nouns of at least two characters. Entities are written in
    simplified characters, so that both ways of writing meet; spans refer to the text as it is.

    The extractor can be used by several threads, and pickled.

    Raises:
        MissingDependencyError: On first use, if OpenCC is not installed.
    """

    language = CHINESE

    def __init__(self) -> None:
        self._simplifier = Simplifier()

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the class; a copy loads the model on first use."""
        return type(self), ()

    @property
    def is_reproducible_by_name(self) -> bool:
        """Whether an equal extractor can be created from the name of the model alone."""
        return True

    @property
    def fingerprint(self) -> str:
        """The name and version of the model, and the version of the rules."""
        return f"chinese:{BUNDLED_MODEL}-{self._tagger.version}:rules={RULES_VERSION}"

    def check_installed(self) -> None:
        """Check that OpenCC is installed, without loading anything.

        Raises:
            MissingDependencyError: If it is not.
        """
        self._simplifier.check_installed()

    def extract(self, texts: Sequence[str]) -> list[Sentences]:
        """Return the mentions in each sentence of each text, in order."""
        self.check_installed()
        split = [_Text.of(text) for text in texts]
        pieces = [text.plain[slice(*piece)] for text in split for piece in text.pieces]
        tagged = iter(self._tagger.tag(pieces))
        return [self._sentences(text, [next(tagged) for _ in text.pieces]) for text in split]

    @lazy
    def _tagger(self) -> ChineseTagger:
        return ChineseTagger.from_folder(Path(__file__).parents[2] / "models" / BUNDLED_MODEL)

    def _sentences(self, text: _Text, tagged: Sequence[TaggedSentence]) -> list[list[Mention]]:
        names = _merge(
            _model_names(text.plain, text.pieces, tagged),
            [*_latin_names(text.plain), *_titles(text.plain)],
        )
        nouns = _nouns(text.plain, text.pieces, tagged, names)
        found: list[list[Mention]] = [[] for _ in text.sentences]
        for one in sorted([*names, *nouns]):
            sentence = bisect_right(text.sentences, one.start) - 1
            found[sentence].append(self._mention(text, one))
        return found

    def _mention(self, text: _Text, one: Token) -> Mention:
        start, end = int(text.origin[one.start]), int(text.origin[one.end - 1]) + 1
        entity = self._simplifier.simplify(_DOT.sub("·", text.plain[one.start : one.end]))
        return Mention(entity, start, end, one.label)


class _Text(NamedTuple):
    """A text as the model reads it.

    Attributes:
        plain: The text with single spaces and without the line breaks of hard-wrapped lines. Each
            remaining line break is one.
        origin: The offset in the original text of each of its characters.
        sentences: The starts of the sentences.
        pieces: The spans that the model reads: the sentences, of which long ones are split.
    """

    plain: str
    origin: NDArray[np.int64]
    sentences: list[int]
    pieces: list[Span]

    @classmethod
    def of(cls, text: str) -> _Text:
        plain, origin = _join_lines(text)
        breaks = (match.end() for match in re.finditer("\n", plain))
        starts = sorted({*sentence_starts(plain), *breaks} - {len(plain)}) or [0]
        pieces = [
            piece
            for start, end in pairwise([*starts, len(plain)])
            for piece in _short_pieces(plain, start, end)
        ]
        return cls(plain, origin, starts, pieces)


def _join_lines(text: str) -> tuple[str, NDArray[np.int64]]:
    longest = max(map(len, text.split("\n")))
    pieces: list[str] = []
    origins: list[NDArray[np.int64]] = []
    at = 0
    for run in _SPACE_RUN.finditer(text):
        filler = " "
        if "\n" in run.group():
            line = text[text.rfind("\n", 0, run.start()) + 1 : run.start()]
            filler = "\n"
            if _is_wrapped(line, run.group(), longest):
                filler = " " if _is_latin_at(text, run.start() - 1, run.end()) else ""
        pieces += [text[at : run.start()], filler]
        origins += [np.arange(at, run.start()), np.full(len(filler), run.start())]
        at = run.end()
    pieces.append(text[at:])
    origins.append(np.arange(at, len(text)))
    return "".join(pieces).translate(_WIDE), np.concatenate(origins)


def _is_latin_at(text: str, *places: int) -> bool:
    """Return whether all characters in some places are of Latin words, which have spaces."""
    return all(0 <= at < len(text) and _LATIN.match(text[at]) for at in places)


def _is_wrapped(line: str, space: str, longest: int) -> bool:
    """Return whether a line that precedes some whitespace continues in the next one."""
    width = max(_MIN_WRAPPED, _WRAPPED_WIDTH * longest)
    return space.count("\n") == 1 and len(line) >= width and not _LINE_END.search(line)


def _short_pieces(text: str, start: int, end: int) -> Iterator[Span]:
    """Split a sentence at commas where it is too long, and drop surrounding whitespace."""
    while end - start > _LONGEST_SENTENCE:
        half = start + _LONGEST_SENTENCE // 2
        ends = [m.end() for m in _CLAUSE_END.finditer(text, half, start + _LONGEST_SENTENCE)]
        cut = ends[-1] if ends else start + _LONGEST_SENTENCE
        yield from _short_pieces(text, start, cut)
        start = cut
    span = stripped_span(text, start, end)
    if span.start < span.end:
        yield span


def _model_names(
    text: str, pieces: Sequence[Span], tagged: Sequence[TaggedSentence]
) -> list[Token]:
    """Return the names that the model found, in order and disjoint."""
    found: list[Token] = []
    others: list[Token] = []
    borders: set[int] = set()
    for (offset, _), sentence in zip(pieces, tagged, strict=True):
        for start, end, label in sentence.names:
            found += _trimmed(text, Token(start + offset, end + offset, _LABELS[label]))
        for start, end, label in sentence.words:
            borders.add(start + offset)
            if label in _NAME_TAGS:
                others += _trimmed(text, Token(start + offset, end + offset, NAME))
    found = _with_others(_disjoint(found), others)
    return _with_others(found, _repeated(text, found, borders | {len(text)}))


def _trimmed(text: str, name: Token) -> list[Token]:
    """Return a name without punctuation and forms of address, and with complete Latin words.

    The list is empty if fewer than two characters remain, or if the name is too long.
    """
    start, end, label = name
    lead, trail = _LEADING.match(text, start, end), _TRAILING.search(text, start, end)
    start, end = (lead.end() if lead else start), (trail.start() if trail else end)
    bare = without_chinese_address(text[start:end])
    if len(bare) > 1:
        end = start + len(bare)
    while 0 < start < end <= start + MAX_NAME and _in_latin_word(text, start):
        start -= 1
    while start < end < len(text) and end <= start + MAX_NAME and _in_latin_word(text, end):
        end += 1
    is_name = 1 < end - start <= MAX_NAME and any(map(str.isalpha, text[start:end]))
    return [Token(start, end, label)] if is_name else []


def _repeated(text: str, names: Sequence[Token], borders: set[int]) -> Iterator[Token]:
    """Yield the other occurrences of names, if they begin and end where words do."""
    labels = {text[name.start : name.end]: name.label for name in names}
    if not labels:
        return
    longest_first = sorted(labels, key=lambda one: (-len(one), one))
    for match in re.finditer("|".join(map(re.escape, longest_first)), text):
        if borders.issuperset(match.span()):
            yield Token(*match.span(), labels[match.group()])


def _in_latin_word(text: str, at: int) -> bool:
    """Return whether an offset lies between two Latin letters or digits."""
    return all(_LATIN.match(character) for character in text[at - 1 : at + 1])


def _titles(text: str) -> list[Token]:
    """Return the titles in book marks."""
    spans = (match.span(1) if match[1] else match.span(2) for match in _TITLE.finditer(text))
    return [name for start, end in spans for name in _trimmed(text, Token(start, end, NAME))]


def _latin_names(text: str) -> list[Token]:
    """Return words in Latin letters with a capital, and runs of them."""
    matches = (match.span() for match in _LATIN_NAME.finditer(text))
    return [Token(start, end, NAME) for start, end in matches if 1 < end - start <= MAX_NAME]


def _merge(inner: list[Token], outer: list[Token]) -> list[Token]:
    """Merge two lists of names. An outer name replaces the inner ones that it contains.

    An outer name that an inner one crosses or contains is dropped.
    """
    names = list(inner)
    for one in outer:
        overlapping = [other for other in names if _overlap(one, other)]
        if all(one.start <= other.start and other.end <= one.end for other in overlapping):
            is_known = [other[:2] for other in overlapping] == [one[:2]]
            names = [other for other in names if other not in overlapping]
            names.append(overlapping[0] if is_known else one)
    return sorted(names)


def _with_others(names: list[Token], others: Iterable[Token]) -> list[Token]:
    """Add the names that overlap with none of the former, both in order and disjoint."""
    ends = [name.end for name in names]
    free = [other for other in others if not _hits(names, ends, other)]
    return sorted([*names, *_disjoint(free)])


def _nouns(
    text: str, pieces: Sequence[Span], tagged: Sequence[TaggedSentence], names: Sequence[Token]
) -> Iterator[Token]:
    """Yield the common nouns outside names that have at least two letters."""
    ends = [name.end for name in names]
    for (offset, _), sentence in zip(pieces, tagged, strict=True):
        for word in sentence.words:
            if word.label not in _NOUN_TAGS or word.end - word.start == 1:
                continue
            noun = Token(word.start + offset, word.end + offset, NOUN)
            is_cut = any(_in_latin_word(text, at) for at in noun[:2] if 0 < at < len(text))
            letters = sum(character.isalpha() for character in text[noun.start : noun.end])
            if letters > 1 and not is_cut and not _hits(names, ends, noun):
                yield noun


def _hits(names: Sequence[Token], ends: Sequence[int], one: Token) -> bool:
    """Return whether a span overlaps with one of several names in order, which have these ends."""
    after = bisect_right(ends, one.start)
    return after < len(names) and _overlap(one, names[after])


def _overlap(one: Token, other: Token) -> bool:
    return one.start < other.end and other.start < one.end


def _disjoint(names: Iterable[Token]) -> list[Token]:
    """Keep the first of overlapping names, given in order."""
    kept: list[Token] = []
    for name in names:
        if not kept or kept[-1].end <= name.start:
            kept.append(name)
    return kept
