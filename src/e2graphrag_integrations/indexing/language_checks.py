"""Warnings at indexing: models and languages that do not fit the documents.

Each warning is logged once per index and language, and one message covers all languages of a run.
It says what to install or to pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from e2graphrag_integrations.components import Components
from e2graphrag_integrations.languages.detection import main_script
from e2graphrag_integrations.languages.language import (
    ENGLISH,
    HAN,
    HANGUL,
    KANA,
    UNKNOWN,
    describe_language,
    describe_languages,
    scripts_of_language,
)
from e2graphrag_integrations.types import SourceDocument

_SPACY_LANGUAGES = frozenset(
    "ca da de el es fi fr hr it ja ko lt mk nb nl pl pt ro ru sl sv uk".split()
)
"""Languages with a pipeline on spaCy's site, besides English and Chinese."""

_MIN_LENGTH = 2000
"""Length of the texts in a language from which their mentions are judged, in Latin letters. The
sentences of an extractor that does not fit are no measure."""

_LENGTH_PER_MENTION = 500
"""Maximum length of text per name or noun of an extractor that fits, in Latin letters."""

_LONG_NAME = 80
"""Length above which a name is probably not a name, in Latin letters."""

_DENSE_LENGTH = 4
"""Length of a letter in a script in which it is a syllable or a word, in Latin letters."""

_MAX_LONG_NAMES = 0.1
"""Maximum share of overlong names of an extractor that fits."""


def warn_about_languages(documents: Iterable[SourceDocument], components: Components) -> None:
    """Log warnings about the languages of documents, before they are indexed.

    - A language that was given does not use the script of the document.
    - The extractor of a language is the fallback by rules.
    - The user's extractor is for a language with another script.

    Args:
        documents: Documents with their languages.
        components: The models of the index, already checked.
    """
    counts: Counter[str] = Counter()
    wrong: dict[str, _WrongScript] = {}
    for document in documents:
        language = document.language or UNKNOWN
        counts[language] += 1
        script = _wrong_script(document, language)
        if script is not None:
            found = wrong.setdefault(language, _WrongScript(document.id, script))
            found.documents += 1
    without_pipeline: dict[str, int] = {}
    for language, count in counts.items():
        if language in wrong:
            _warn_about_script(language, wrong[language], components)
        if components.has_default_extractor(language):
            if _has_rules(language, components):
                without_pipeline[language] = count
        else:
            _warn_about_pipeline(language, count, components)
    notices = components.language_notices
    unwarned = notices.unwarned("extractor", without_pipeline)
    if unwarned:
        unserved = {language: without_pipeline[language] for language in unwarned}
        notices.warn("extractor", unwarned, _fallback(unserved))


def _has_rules(language: str, components: Components) -> bool:
    """Return whether the default extractor of a language finds names by rules alone."""
    if language == ENGLISH:
        return False
    from e2graphrag_integrations.entities.rule_extractor import RuleBasedExtractor

    return isinstance(components.chunk_extractor(language).extractor, RuleBasedExtractor)


@dataclass
class _WrongScript:
    """The first document of a language in the script of others, and the number of all of them."""

    id: str
    script: str
    documents: int = 0


def _wrong_script(document: SourceDocument, language: str) -> str | None:
    """Return the script of a document if its language does not use it."""
    scripts = scripts_of_language(language)
    if not scripts or document.text.isascii():
        return None
    script = main_script(document.text)
    return None if script in scripts else script


def _warn_about_script(language: str, wrong: _WrongScript, components: Components) -> None:
    others = wrong.documents - 1
    more = f" and {others} more documents are" if others else " is"
    components.language_notices.warn(
        "language",
        [language],
        f"{wrong.id!r}{more} said to be in {describe_language(language)}, but most letters are in "
        f"the script {wrong.script}: give the right language, or none to have it detected",
    )


def _fallback(counts: Mapping[str, int]) -> str:
    advice = "pass an EntityExtractor of your own"
    language = max(_SPACY_LANGUAGES & set(counts), key=lambda one: (counts[one], one), default="")
    if language:
        pipeline = f"{language}_core_news_sm"
        advice = (
            f"install a spaCy pipeline (`python -m spacy download {pipeline}`) and pass "
            f'models=Models(extractor={{"{language}": "{pipeline}"}})'
        )
    return (
        f"there is no pipeline for {describe_languages(counts)}, so names are found by rules, "
        f"which is a fallback and misses many: to find more, {advice}, and reindex()"
    )


def _warn_about_pipeline(language: str, documents: int, components: Components) -> None:
    own = getattr(components.chunk_extractor(language).extractor, "language", None)
    scripts = scripts_of_language(own) if isinstance(own, str) else ()
    if scripts and set(scripts).isdisjoint(scripts_of_language(language)):
        components.language_notices.warn(
            "extractor",
            [language],
            f"the extractor is for {describe_language(str(own))}, but {documents} document(s) are "
            f"in {describe_language(language)}: {_advice(str(own))}",
        )


def _advice(language: str) -> str:
    return (
        f'pass it for its own language only, models=Models(extractor={{"{language}": ...}}), so '
        "that other languages have their default extractors"
    )


@dataclass
class ExtractionFit:
    """Counts by which an extractor that does not fit a language is noticed.

    Attributes:
        lengths, mentions, names, long_names: Length of the texts, and numbers of mentions, names,
            and names that are too long, by language.
    """

    lengths: Counter[str] = field(default_factory=Counter)
    mentions: Counter[str] = field(default_factory=Counter)
    names: Counter[str] = field(default_factory=Counter)
    long_names: Counter[str] = field(default_factory=Counter)

    def add(self, language: str, text: str, sentences: Sequence[Sequence[tuple[str, str]]]) -> None:
        """Count the mentions in a chunk, given as `(normal form, label)` by sentence."""
        is_dense = not {HAN, KANA, HANGUL}.isdisjoint(scripts_of_language(language))
        factor = _DENSE_LENGTH if is_dense else 1
        names = [form for sentence in sentences for form, label in sentence if label]
        self.lengths[language] += factor * len(text)
        self.mentions[language] += sum(map(len, sentences))
        self.names[language] += len(names)
        self.long_names[language] += sum(factor * len(name) > _LONG_NAME for name in names)

    def warn(self, components: Components) -> None:
        """Log a warning for each language that the user's extractor does not fit."""
        for language, length in self.lengths.items():
            if length < _MIN_LENGTH or components.has_default_extractor(language):
                continue
            mentions, names = self.mentions[language], self.names[language]
            problem = ""
            if self.long_names[language] > _MAX_LONG_NAMES * names:
                share = self.long_names[language] / names
                problem = f"{share:.0%} of its names are too long to be names"
            elif mentions * _LENGTH_PER_MENTION < length:
                problem = f"it found only {mentions} name(s) and nouns"
            if problem:
                components.language_notices.warn(
                    "extractor",
                    [language],
                    f"the extractor does not fit {describe_language(language)}: {problem}. To "
                    f"replace it, {_advice(ENGLISH)}, and reindex()",
                )
