"""Which extractor finds the entities of a text, by the language of the text.

An extractor that the user passes applies to all languages, unless it is part of a mapping from
languages to extractors. All other documents are extracted by the extractor of their language:
English by the bundled pipeline, Chinese by the extractor of the extra `zh`, and others by rules.

The manifest of an index names the extractor of English documents, or the one of all documents,
under `extractor`. Each further language has an entry of its own, such as `extractor_zh`, from its
first document on.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from e2graphrag_integrations._utils.validation import check_name, check_protocol, short_repr
from e2graphrag_integrations.entities.chunk_extractor import EXTRACTOR_KEY
from e2graphrag_integrations.entities.spacy_extractor import BUNDLED_PIPELINE, SpacyEntityExtractor
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.languages.detection import has_english_words, main_script
from e2graphrag_integrations.languages.language import (
    CHINESE,
    ENGLISH,
    HAN,
    KANA,
    LATIN,
    checked_code,
    count_scripts,
    script_of,
    scripts_of_language,
)
from e2graphrag_integrations.protocols import EntityExtractor

ExtractorArgument = EntityExtractor | str | os.PathLike[str]
"""An extractor, or the name or path of a spaCy pipeline."""


@runtime_checkable
class ExtractorRules(Protocol):
    """Rules that complete any extractor, such as `EntityRules`."""

    def applied_to(self, extractor: EntityExtractor) -> EntityExtractor:
        """Return an extractor that also finds what the rules match."""


Extractors = ExtractorArgument | ExtractorRules | Mapping[str, ExtractorArgument]
"""An extractor for all languages, one for each of some languages, or rules for all languages."""

EXTRACTOR = "extractor"
"""Key in the manifest for the extractor of English documents, or of all documents."""

MODEL = "_model"
"""End of the keys for the names by which extractors can be loaded again."""

RECORDED_RULES = "rules:"
"""Start of the names in the manifest of extractors with the user's rules."""

DEFAULT = "default"
"""Name in the manifest of the default extractor of a language other than English."""

_BY_LANGUAGE = "extractor_by_language"
"""Key in the manifest of an index that has another extractor for English, but not for all."""

_NOT_CHOSEN = ("", DEFAULT, BUNDLED_PIPELINE)
"""Names in the manifest of extractors that the user did not choose by name."""


def extractor_key(language: str) -> str:
    """Return the key in the manifest for the extractor of a language."""
    return EXTRACTOR if language == ENGLISH else f"{EXTRACTOR}_{language}"


def recorded_languages(manifest: Mapping[str, str]) -> dict[str, str]:
    """Return the fingerprint of the extractor of each language in a manifest, English first.

    If one extractor applies to all documents, it counts as that of English.
    """
    found = {
        match[1] or ENGLISH: manifest[key]
        for key in manifest
        if (match := EXTRACTOR_KEY.fullmatch(key))
    }
    return {code: found[code] for code in sorted(found, key=lambda code: (code != ENGLISH, code))}


def extractor_fingerprint(manifest: Mapping[str, str], language: str) -> str:
    """Return the fingerprint of the extractor of the documents in a language."""
    key = extractor_key(language)
    return manifest[key if key in manifest else EXTRACTOR]


def extractor_entries(manifest: Mapping[str, str]) -> dict[str, str]:
    """Return the entries of a manifest that concern extractors."""
    return {
        key: value
        for key, value in manifest.items()
        if key == _BY_LANGUAGE or EXTRACTOR_KEY.fullmatch(key.removesuffix(MODEL))
    }


def without_extractors(manifest: Mapping[str, str]) -> dict[str, str]:
    """Return a manifest without the entries that concern extractors."""
    own = extractor_entries(manifest)
    return {key: value for key, value in manifest.items() if key not in own}


def used_entries(manifest: Mapping[str, str], languages: Collection[str]) -> dict[str, str]:
    """Return a manifest without the extractors of languages that no document has.

    Args:
        manifest: The manifest of an index.
        languages: The languages of all documents.
    """
    used = {extractor_key(code) for code in languages}
    used = {key if key in manifest else EXTRACTOR for key in used}
    unused = {extractor_key(code) for code in recorded_languages(manifest)} - used
    return {key: one for key, one in manifest.items() if key.removesuffix(MODEL) not in unused}


def recorded_extractors(manifest: Mapping[str, str]) -> str | dict[str, str] | None:
    """Return the argument `extractor` that gives the extractors in a manifest.

    Extractors without a name are left out. None means the default ones.
    """
    if _has_one_extractor(manifest):
        return manifest.get(EXTRACTOR + MODEL) or None
    names = {
        code: manifest.get(extractor_key(code) + MODEL, "") for code in recorded_languages(manifest)
    }
    chosen = {code: name for code, name in names.items() if name not in _NOT_CHOSEN}
    return chosen or None


def default_extractor(language: str) -> EntityExtractor:
    """Return the extractor of a language for which the user passed none.

    Loading its models may raise a MissingDependencyError, on first use.
    """
    if language == ENGLISH:
        return SpacyEntityExtractor()
    if language == CHINESE:
        from e2graphrag_integrations.entities.chinese.extractor import ChineseEntityExtractor

        return ChineseEntityExtractor()
    from e2graphrag_integrations.entities.rule_extractor import RuleBasedExtractor

    return RuleBasedExtractor(language)


def check_installed(extractor: EntityExtractor) -> None:
    """Check that the packages that an extractor needs are installed, if it can say so.

    Raises:
        MissingDependencyError: If they are not.
    """
    check = getattr(extractor, "check_installed", None)
    if check is not None:
        check()


class ExtractorRouter:
    """Chooses the extractor of each language, without loading it.

    Args:
        passed: The user's extractor, a mapping from languages to extractors, or rules that
            complete the default extractor of each language.
        manifest: The manifest of the index; empty for a new index.

    Raises:
        InvalidInputError: If the argument is invalid.
    """

    def __init__(self, passed: Extractors | None, manifest: Mapping[str, str]) -> None:
        self._manifest = manifest
        self._given: dict[str, EntityExtractor] = {}
        self._single: EntityExtractor | None = None
        self._rules = passed if isinstance(passed, ExtractorRules) else None
        if isinstance(passed, Mapping):
            self._given = _extractors(passed)
        elif passed is not None and self._rules is None:
            self._single = as_extractor(passed)
        self.is_single = self._single is not None or (
            passed is None and _has_one_extractor(manifest)
        )
        self._known: dict[str, EntityExtractor | None] = dict(self._given)

    def key(self, language: str) -> str:
        """Return the key in the manifest for the extractor that is used for a language."""
        own = extractor_key(language)
        return EXTRACTOR if self.is_single and own not in self._manifest else own

    def extractor(self, language: str) -> EntityExtractor | None:
        """Return the extractor of a language; None if the index has one that must be passed."""
        if self._single is not None:
            return self._single
        key = self.key(language)
        if language not in self._known:
            self._known[language] = self._resolve(language, key)
        return self._known[language]

    def _resolve(self, language: str, key: str) -> EntityExtractor | None:
        if self._rules is not None:
            return self._rules.applied_to(default_extractor(language))
        if key not in self._manifest:
            return default_extractor(language)
        name = self._manifest.get(key + MODEL, "")
        if name == DEFAULT:
            return default_extractor(language)
        return named_extractor(name) if name else None

    def model_name(self, language: str) -> str:
        """Return the name by which the extractor of a language can be loaded again, or ""."""
        extractor = self.extractor(language)
        recorded = getattr(extractor, "recorded_name", None)
        if recorded is not None:
            return RECORDED_RULES + recorded if recorded else ""
        if isinstance(extractor, SpacyEntityExtractor):
            return str(extractor.model) if extractor.is_reproducible_by_name else ""
        return DEFAULT if self.is_default(language) else ""

    def is_default(self, language: str) -> bool:
        """Return whether a language has its default extractor, not one that the user chose."""
        if self._single is not None or self._rules is not None or language in self._given:
            return False
        key = self.key(language)
        names = (DEFAULT, BUNDLED_PIPELINE if language == ENGLISH else DEFAULT)
        return key not in self._manifest or self._manifest.get(key + MODEL) in names

    def marker(self) -> dict[str, str]:
        """Return the entry of the manifest that shows that extractors depend on the language.

        It is needed only if the extractor of English documents does not show it already.
        """
        if self.is_single:
            return {}
        is_needed = self.extractor(ENGLISH) is None or self.model_name(ENGLISH) != BUNDLED_PIPELINE
        return {_BY_LANGUAGE: "yes"} if is_needed else {}


def named_extractor(name: str) -> EntityExtractor:
    """Return the extractor with a name in a manifest, or that of a spaCy pipeline."""
    if not name.startswith(RECORDED_RULES):
        return SpacyEntityExtractor(name)
    from e2graphrag_integrations.entities.entity_rules import extractor_of

    return extractor_of(name.removeprefix(RECORDED_RULES))


def as_extractor(passed: Any) -> EntityExtractor:
    """Return the user's extractor.

    Raises:
        InvalidInputError: If the argument is neither an extractor nor a name or path.
    """
    if isinstance(passed, str):
        return named_extractor(check_name("extractor", passed))
    if isinstance(passed, os.PathLike):
        return SpacyEntityExtractor(passed)
    check_protocol("extractor", passed, EntityExtractor)
    extractor: EntityExtractor = passed
    return extractor


def _extractors(passed: Mapping[Any, Any]) -> dict[str, EntityExtractor]:
    if not passed:
        raise InvalidInputError("extractor={} is empty: pass an extractor for each language")
    found: dict[str, EntityExtractor] = {}
    for language, extractor in passed.items():
        code = checked_code(language, "a key of extractor")
        if code in found:
            raise InvalidInputError(
                f"extractor={short_repr(dict(passed))} has two extractors for {code!r}"
            )
        found[code] = as_extractor(extractor)
    return found


def _has_one_extractor(manifest: Mapping[str, str]) -> bool:
    """Return whether an index has one extractor for all documents: the user's own."""
    return (
        EXTRACTOR in manifest
        and manifest.get(EXTRACTOR + MODEL) != BUNDLED_PIPELINE
        and list(recorded_languages(manifest)) == [ENGLISH]
        and _BY_LANGUAGE not in manifest
    )


def question_languages(question: str, languages: Iterable[str]) -> list[str]:
    """Return the languages of an index whose extractors read a question.

    They are those that share a script with the question. If there are none, it is the first one.

    Args:
        question: The question.
        languages: The languages of the index, the main one first.
    """
    known = list(languages)
    if len(known) <= 1:
        return known
    scripts = set(count_scripts(question))
    if main_script(question) == KANA:
        scripts.discard(HAN)
    fitting = [code for code in known if scripts & set(scripts_of_language(code))]
    if ENGLISH in fitting and has_english_words(question):
        fitting = [
            code for code in fitting if code == ENGLISH or LATIN not in scripts_of_language(code)
        ]
    return fitting or known[:1]


def is_in_script_of(text: str, language: str) -> bool:
    """Return whether most letters of a text belong to a script of a language, if it is known."""
    script, scripts = main_script(text), scripts_of_language(language)
    return not scripts or script is None or script in scripts


def visible_text(text: str, language: str) -> str:
    """Return a text in which letters of scripts that a language does not use are spaces.

    Offsets remain valid. Latin letters remain, because names are written in them in any language.

    >>> visible_text("OpenAI的创始人是谁", "en")
    'OpenAI      '
    """
    scripts = {*scripts_of_language(language), LATIN, ""}
    return "".join(one if script_of(one) in scripts else " " for one in text)
