"""Entity extraction with spaCy: named entities as complete spans, common nouns as lemmas."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.entities.name_rules import (
    NameSpan,
    find_names,
    name_rules_of,
)
from e2graphrag_integrations.errors import (
    ExtractionError,
    MissingDependencyError,
    NotPicklableError,
)
from e2graphrag_integrations.protocols import EntityExtractor
from e2graphrag_integrations.text.headings import first_line_heading
from e2graphrag_integrations.text.letters import UNSPACED
from e2graphrag_integrations.text.lines import name_ends
from e2graphrag_integrations.text.sentences import sentence_starts
from e2graphrag_integrations.types import NOUN, Mention, Sentences, Span

if TYPE_CHECKING:
    from numpy.typing import NDArray

BUNDLED_PIPELINE = "en_e2g_sm"

RULES_VERSION = 4
"""Version of the extractor's rules; part of its fingerprint. Raise it when they change."""

_MARKUP = re.compile(r"[<>{}=\\$€£¥|]")
_DIGIT = re.compile(r"\d")
_MIXED = re.compile(r"[a-z][A-Z].*[a-z][A-Z]")
_MIN_DATA = 20
"""Minimum length of a word of data, such as a hash."""

_NOT_ENTITIES = frozenset({"DATE", "TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL"})
_SPACE_RUN = re.compile(r"\s+")
_LONGEST_RUN = 500
"""Maximum length of a run without whitespace, in characters. Longer runs are split."""

# Excludes scripts without spaces, in which an entire text may be a single run.
_LONG_RUN = re.compile(rf"[^\s{UNSPACED}]{{{_LONGEST_RUN + 1},}}")
_NEEDED = frozenset(
    {"tok2vec", "transformer", "curated_transformer", "tagger", "morphologizer"}
    | {"attribute_ruler", "lemmatizer", "trainable_lemmatizer", "senter", "sentencizer"}
    | {"parser", "ner", "entity_ruler", "span_ruler"}
)


class SpacyEntityExtractor:
    """Finds entities with a spaCy pipeline.

    All types of named entities except numbers and dates are extracted as complete spans. Rules add
    capitalized names that the model misses (`name_rules.py`). The lemmas of common nouns outside
    names are also entities. The pipeline splits the text into sentences; if it has no component
    that does so, rules are used.

    Args:
        model: The name of an installed pipeline (`"en_core_web_lg"`, `"zh_core_web_sm"`), a path,
            or a loaded `Language`. None uses the bundled English pipeline.
        batch_size: Number of texts per batch of `nlp.pipe`.
        n_process: Number of processes for `nlp.pipe`; 1 uses the current process. The bundled
            pipeline uses several only where processes are forked (the default on Linux up to
            Python 3.13).
        name_rules: Whether to apply the rules for capitalized names.

    Raises:
        MissingDependencyError: On first use, if the pipeline is not installed.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Any | None = None,
        *,
        batch_size: int = 16,
        n_process: int = 1,
        name_rules: bool = True,
    ) -> None:
        self.model = BUNDLED_PIPELINE if model is None else model
        self._batch_size = batch_size
        self._n_process = n_process
        self._name_rules = name_rules
        self._nlp: Any = None
        self._lock = process_lock()  # spaCy writes to its string store while it processes text

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the arguments of the constructor; a copy loads the pipeline on first use.

        Raises:
            NotPicklableError: If the extractor was created with a loaded pipeline.
        """
        if not isinstance(self.model, str | os.PathLike):
            raise NotPicklableError(
                "a SpacyEntityExtractor with a loaded pipeline cannot be pickled: create it with "
                "the name or the path of the pipeline"
            )
        create = partial(
            type(self),
            self.model,
            batch_size=self._batch_size,
            n_process=self._n_process,
            name_rules=self._name_rules,
        )
        return create, ()

    @property
    def is_reproducible_by_name(self) -> bool:
        """Whether an equal extractor can be created from the model's name alone."""
        return isinstance(self.model, str | os.PathLike) and self._name_rules

    @property
    def nlp(self) -> Any:
        """The spaCy pipeline, which is loaded on first use."""
        if self._nlp is None:
            self._nlp = _load(self.model)
        return self._nlp

    @property
    def language(self) -> str:
        """The code of the pipeline's language; "xx" if it is for several."""
        return str(self.nlp.meta["lang"])

    @property
    def fingerprint(self) -> str:
        """The pipeline's name, version and components, and the rules that are applied.

        If it is not an installed package, there is a digest, because many have the same name.
        """
        meta = self.nlp.meta
        version = f"{meta['lang']}_{meta['name']}-{meta['version']}"
        rules = f"rules={int(self._name_rules)}:version={RULES_VERSION}"
        return f"spacy:{version}{self._digest}:{','.join(self.nlp.pipe_names)}:{rules}"

    @lazy
    def _digest(self) -> str:
        """The digest of a pipeline in a folder or in memory; empty for that of a package."""
        meta, folder = self.nlp.meta, self.nlp.path and Path(self.nlp.path)
        package = f"{meta['lang']}_{meta['name']}-{meta['version']}"
        if self.model == BUNDLED_PIPELINE or (folder and folder.name == package):
            return ""
        digest = hashlib.sha256(self.nlp.config.to_str().encode())
        for name, pipe in self.nlp.pipeline:
            if hasattr(pipe, "patterns"):  # rules that may have been added in memory
                digest.update(f"{name}{pipe.patterns}".encode("utf-8", "replace"))
        for path in sorted(folder.rglob("*")) if folder and folder.is_dir() else ():
            if path.is_file():
                digest.update(path.relative_to(folder).as_posix().encode())
                digest.update(path.read_bytes())
        return f"+{digest.hexdigest()[:16]}"

    def extract(self, texts: Sequence[str]) -> list[Sentences]:
        """Return the mentions in each sentence of each text, in order."""
        found: list[list[list[Mention]]] = [[] for _ in texts]
        with self._lock:
            unwrapped = [_unwrap(text, _name_ends(text)) for text in texts]
            pieces = [
                (number, plain[start:end], origin[start:end])
                for number, (plain, origin) in enumerate(unwrapped)
                for start, end in _pieces(plain, self.nlp.max_length)
            ]
            docs = self.nlp.pipe(
                (plain for _, plain, _ in pieces),
                batch_size=self._batch_size,
                n_process=self._processes(),
            )
            for doc, (number, _, origin) in zip(docs, pieces, strict=True):
                found[number].extend(self._sentences(doc, origin))
        return list(found)

    def _processes(self) -> int:
        # A spawned process receives the pipeline as bytes. spaCy does not serialize `vectors.attr`,
        # without which the bundled pipeline finds far fewer names.
        forks = multiprocessing.get_start_method() == "fork"
        return self._n_process if forks or self.model != BUNDLED_PIPELINE else 1

    def _sentences(self, doc: Any, origin: NDArray[np.int64]) -> list[list[Mention]]:
        lower_words = frozenset(token.text for token in doc if token.text.islower())
        # `Span.ents` would read all entities of the text again for each sentence.
        entities = [NameSpan(entity.start, entity.end, entity.label_) for entity in doc.ents]
        starts = [entity.start for entity in entities]
        found = []
        for sentence in _spacy_sentences(doc):
            own = entities[slice(*(bisect_left(starts, i) for i in (sentence.start, sentence.end)))]
            names = [e for e in own if e.end <= sentence.end and e.label not in _NOT_ENTITIES]
            found.append(
                [
                    Mention(m.entity, int(origin[m.start]), int(origin[m.end - 1]) + 1, m.label)
                    for m in self._mentions(sentence, names, lower_words)
                ]
            )
        return found

    def _mentions(
        self, sentence: Any, names: list[NameSpan], lower_words: frozenset[str]
    ) -> Iterator[Mention]:
        if self._name_rules:
            names = find_names(sentence, names, lower_words, name_rules_of(self.nlp.lang))
        doc = sentence.doc
        inside: set[int] = set()
        mentions = []
        for start, end, label in names:
            span = doc[start:end]
            inside.update(range(start, end))
            name = _before_markup(span.text)
            if name:
                mentions.append(Mention(name, span.start_char, span.start_char + len(name), label))
        for token in sentence:
            is_noun = token.pos_ == "NOUN" and token.i not in inside and _is_word(token.text)
            if is_noun and not _is_data(token.text):
                lemma = (token.lemma_ or token.text).lower()
                mentions.append(Mention(lemma, token.idx, token.idx + len(token.text), NOUN))
        return iter(sorted(mentions, key=lambda m: (m.start, m.end)))


def _name_ends(text: str) -> frozenset[int]:
    """Return the places of white space and separators at which a name ends."""
    heading = first_line_heading(text)
    ends = [] if heading is None else [text.index(heading) + len(heading)]
    return frozenset([*ends, *name_ends(text)])


def _before_markup(name: str) -> str:
    """Return a name up to the first character of markup or an amount; "" if it is no name."""
    markup = _MARKUP.search(name)
    name = name if markup is None else name[: markup.start()].rstrip(" ,;:.(")
    return "" if _is_data(name) or not _is_word(name) else name


def _is_data(text: str) -> bool:
    """Return whether a text has a word of data, such as a hash or base64."""
    words = (word for word in text.split() if len(word) >= _MIN_DATA)
    return any(_DIGIT.search(word) or _MIXED.search(word) for word in words)


def _is_word(text: str) -> bool:
    return any(character.isalpha() for character in text) and (len(text) > 1 or not text.isascii())


def _spacy_sentences(doc: Any) -> Iterator[Any]:
    if doc.has_annotation("SENT_START"):
        return iter(doc.sents)
    offsets = np.asarray([token.idx for token in doc], dtype=np.int64)
    # A token belongs to the sentence that contains its first character.
    first = np.unique(np.searchsorted(offsets, sentence_starts(doc.text)))
    borders = [*first[first < len(doc)].tolist(), len(doc)]
    return (doc[start:end] for start, end in pairwise(borders))


def _pieces(text: str, limit: int) -> Iterator[Span]:
    """Split a text at long runs without whitespace, and where it exceeds spaCy's length limit.

    spaCy's tokenizer takes quadratic time for a run of brackets or quotes.
    """
    cuts = [
        cut
        for run in _LONG_RUN.finditer(text)
        for cut in range(run.start() + _LONGEST_RUN, run.end(), _LONGEST_RUN)
    ]
    start = 0
    for cut in [*cuts, len(text)]:
        while cut - start > limit:
            end = text.rfind(" ", start + 1, start + limit) + 1 or start + limit
            yield Span(start, end)
            start = end
        yield Span(start, cut)
        start = cut


def _unwrap(text: str, ends: frozenset[int]) -> tuple[str, NDArray[np.int64]]:
    """Replace each run of whitespace with one space, or with a blank line if it contains one.

    Otherwise, hard-wrapped lines and indentation would split names and sentences.

    Args:
        text: The text.
        ends: Places of white space and separators that count as a blank line, so that a name ends
            there.

    Returns:
        The new text, and the offset in the original text of each of its characters.
    """
    pieces: list[str] = []
    origins: list[NDArray[np.int64]] = []
    at = 0
    separators = {text[end] for end in ends if end < len(text)} & set("|;,")
    runs = re.compile(rf"\s*[{''.join(separators)}]\s*|\s+") if separators else _SPACE_RUN
    for run in runs.finditer(text):
        ends_line = run.group().count("\n") > 1 or not ends.isdisjoint(range(*run.span()))
        if not ends_line and not run.group().isspace():
            continue  # a separator outside tables
        filler = "\n\n" if ends_line else " "
        pieces += [text[at : run.start()], filler]
        # Both characters of a filler for a single line break come from that line break.
        filled = np.minimum(run.start() + np.arange(len(filler)), run.end() - 1)
        origins += [np.arange(at, run.start()), filled]
        at = run.end()
    pieces.append(text[at:])
    origins.append(np.arange(at, len(text)))
    return "".join(pieces), np.concatenate(origins)


def _load(model: Any) -> Any:
    if not isinstance(model, str | os.PathLike):
        return model
    import spacy

    bundled = Path(__file__).parents[1] / "models" / BUNDLED_PIPELINE
    target = (
        bundled
        if model == BUNDLED_PIPELINE
        else Path(model)
        if Path(model).is_dir()
        else str(model)
    )
    try:
        nlp = spacy.load(target)
    except OSError as error:
        raise MissingDependencyError(
            f"spaCy pipeline {str(model)!r} is neither installed nor a folder: run "
            f"`python -m spacy download {model}`, or omit it to use the default extractor"
        ) from error
    if "senter" in nlp.disabled and "parser" in nlp.pipe_names:
        # The parser is the slowest component, and only its sentence boundaries are needed.
        nlp.enable_pipe("senter")
        nlp.disable_pipe("parser")
    for name in [n for n in nlp.pipe_names if nlp.get_pipe_meta(n).factory not in _NEEDED]:
        nlp.disable_pipe(name)
    return nlp


def extract_checked(
    extractor: EntityExtractor, texts: Sequence[str], places: Sequence[str]
) -> list[list[list[Mention]]]:
    """Run an extractor and validate its result.

    Args:
        extractor: The extractor to run.
        texts: The texts.
        places: Description of each text for error messages.

    Raises:
        ExtractionError: If the extractor fails, returns the wrong number of results, or returns
            anything other than mentions whose spans lie within the text.
    """
    name = type(extractor).__name__
    failed = f"{name}.extract() failed on {places[0]}, or did not return lists of mentions"
    with wrap_errors(ExtractionError, failed):
        found = [[list(sentence) for sentence in one] for one in extractor.extract(list(texts))]
    if len(found) != len(texts):
        raise ExtractionError(
            f"{name}.extract() returned {len(found)} results for {len(texts)} texts"
        )
    return [
        [[_checked_mention(m, text, f"{name} on {place}") for m in s] for s in sentences]
        for sentences, text, place in zip(found, texts, places, strict=True)
    ]


def _checked_mention(mention: Any, text: str, where: str) -> Mention:
    try:
        entity, start, end, label = mention
        is_valid = isinstance(entity, str) and 0 <= int(start) <= int(end) <= len(text)
    except (TypeError, ValueError, OverflowError) as error:
        raise ExtractionError(f"{where} returned {mention!r}, which is not a Mention") from error
    if not is_valid:
        raise ExtractionError(
            f"{where} returned {mention!r}: the span must lie within the text's "
            f"{len(text)} characters"
        )
    return Mention(entity, int(start), int(end), str(label))


def first_mentions(sentences: Sentences) -> tuple[Mention, ...]:
    """Return the first mention of each entity, in the order of the text."""
    first: dict[str, Mention] = {}
    for sentence in sentences:
        for mention in sentence:
            first.setdefault(mention.entity, mention)
    return tuple(first.values())
