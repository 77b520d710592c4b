"""Names that the user lists, with their types: phrases, and patterns of words.

The rules have the format of spaCy's EntityRuler, but work with any extractor and in any script.
They are data: no rule is evaluated as code or as a regular expression.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2graphrag_integrations._utils.files import unread_reason
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.validation import check_instance, check_name, short_repr
from e2graphrag_integrations.entities.entity_types import COMMON_NOUN
from e2graphrag_integrations.entities.rule_matcher import (
    MATCHING_VERSION,
    MAX_TOKENS,
    TOKEN,
    RuleMatch,
    RuleMatcher,
)
from e2graphrag_integrations.errors import InvalidInputError, UnreadableFileError
from e2graphrag_integrations.languages.language import CHINESE
from e2graphrag_integrations.protocols import EntityExtractor, object_fingerprint
from e2graphrag_integrations.text.letters import simplified
from e2graphrag_integrations.text.sentences import sentence_spans
from e2graphrag_integrations.types import Mention, Sentences

_FIELDS = frozenset({"label", "pattern", "id"})
_TEXTS = frozenset({"TEXT", "ORTH", "LOWER", "SHAPE"})
_FLAGS = ("IS_ALPHA", "IS_DIGIT", "IS_LOWER", "IS_UPPER", "IS_TITLE", "IS_PUNCT")
_OPERATORS = ("?", "*", "+")
_MAX_LABEL = 100
_MAX_OPERATORS = 6
_MAX_REPETITIONS = 2
"""spaCy follows all ways to match a pattern; this keeps them below a second for 60 tokens."""


@dataclass(frozen=True)
class EntityRules:
    """Names with their types, in the format of spaCy's EntityRuler.

    A pattern is a phrase, such as `{"label": "drug", "pattern": "vitamin D"}`, or a list with the
    attributes of each token: `{"label": "model", "pattern": [{"LOWER": "model"}, {"SHAPE": "d"}]}`.
    Phrases distinguish capitals. An `id` is the name that all matches of a rule mean.

    The attributes are TEXT (or ORTH), LOWER and SHAPE with a string, `{"IN": [...]}` or
    `{"NOT_IN": [...]}`, IS_ALPHA, IS_DIGIT, IS_LOWER, IS_UPPER, IS_TITLE and IS_PUNCT with true or
    false, and OP with "?", "*" or "+". A pattern has at most 6 tokens with OP, of which 2 may
    repeat. A word, a punctuation mark, or a character of a script without spaces is a token; a
    match has at most 30. A label is a type of its own, unless it is a usual one, such as "ORG".

    As the `extractor` of `Models`, the rules complete the default extractor of each language;
    `RuledExtractor` completes one extractor.

    Args:
        patterns: The rules. Of overlapping matches, the one with most tokens wins, then the
            earliest, then that of the first rule.

    Raises:
        InvalidInputError: If a rule is invalid.
    """

    patterns: Sequence[Mapping[str, Any]]

    def __post_init__(self) -> None:
        if not isinstance(self.patterns, Iterable) or isinstance(self.patterns, str | Mapping):
            raise InvalidInputError(
                f"patterns={short_repr(self.patterns)} must be a list of rules, such as "
                '{"label": "drug", "pattern": "aspirin"}'
            )
        checked = tuple(
            _checked(rule, f"rule {at} of EntityRules") for at, rule in enumerate(self.patterns)
        )
        object.__setattr__(self, "patterns", checked)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> EntityRules:
        """Read a file with one rule as JSON in each line, as spaCy writes them, or a JSON list.

        Raises:
            UnreadableFileError: If the file cannot be read, or a line is not JSON.
            InvalidInputError: If the path is none, or a rule is invalid; the message names its
                line.
        """
        if not isinstance(path, str | os.PathLike):
            raise InvalidInputError(f"path={short_repr(path)} must name a file of rules")
        name = os.fspath(path)
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = unread_reason(error)
            raise UnreadableFileError(f"cannot read the rules in {name}: {reason}") from error
        if text.lstrip().startswith("["):
            return cls(_parsed(text, name, "write a list of rules"))
        rules = []
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                where = f"line {number} of {name}"
                rules.append(_checked(_parsed(line, where, "write one rule in each line"), where))
        return cls(rules)

    def __reduce__(self) -> tuple[type[EntityRules], tuple[Sequence[Mapping[str, Any]]]]:
        return type(self), (self.patterns,)

    @property
    def fingerprint(self) -> str:
        """A hash of the rules and of how they are matched."""
        content = json.dumps([MATCHING_VERSION, self.patterns], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def matches(self, text: str) -> list[RuleMatch]:
        """Return the matches in a text, in order and disjoint."""
        return self._matcher.matches(text)

    def applied_to(self, extractor: EntityExtractor) -> RuledExtractor:
        """Return an extractor whose names these rules complete."""
        return RuledExtractor(extractor, self)

    @lazy
    def _matcher(self) -> RuleMatcher:
        return RuleMatcher(self.patterns)


@dataclass(frozen=True, eq=False)
class RuledExtractor:
    """An extractor whose names are completed by the user's rules.

    A match replaces the mentions that it overlaps, unless a longer name contains it. An index
    remembers the rules, unless the extractor is the user's own: it must be passed at each opening.

    Args:
        extractor: Any extractor.
        rules: The rules.

    Raises:
        InvalidInputError: If an argument has the wrong type.
    """

    extractor: EntityExtractor
    rules: EntityRules

    def __post_init__(self) -> None:
        advice = "pass EntityRules([...])"
        check_instance("rules", self.rules, EntityRules, advice)
        check_instance("extractor", self.extractor, EntityExtractor, "pass an extractor")

    def __reduce__(self) -> tuple[type[RuledExtractor], tuple[EntityExtractor, EntityRules]]:
        return type(self), (self.extractor, self.rules)

    @property
    def fingerprint(self) -> str:
        """The fingerprints of the extractor and of the rules."""
        return f"{object_fingerprint(self.extractor)}:entity_rules={self.rules.fingerprint}"

    @property
    def language(self) -> str | None:
        """The language of the extractor, if it has one."""
        return getattr(self.extractor, "language", None)

    @property
    def recorded_name(self) -> str:
        """The name by which an index creates the extractor again; empty if it cannot."""
        from e2graphrag_integrations.entities.chinese.extractor import ChineseEntityExtractor
        from e2graphrag_integrations.entities.rule_extractor import RuleBasedExtractor
        from e2graphrag_integrations.entities.spacy_extractor import SpacyEntityExtractor

        base = self.extractor
        value: dict[str, Any] = {"patterns": self.rules.patterns}
        if isinstance(base, SpacyEntityExtractor):
            if not base.is_reproducible_by_name:
                return ""
            value["model"] = str(base.model)
        elif isinstance(base, RuleBasedExtractor | ChineseEntityExtractor):
            value["language"] = base.language
            value["is_chinese"] = isinstance(base, ChineseEntityExtractor)
        else:
            return ""
        return json.dumps(value, sort_keys=True, ensure_ascii=False)

    def check_installed(self) -> None:
        """Check that the packages that the extractor needs are installed, if it can say so.

        Raises:
            MissingDependencyError: If they are not.
        """
        check = getattr(self.extractor, "check_installed", None)
        if check is not None:
            check()

    def extract(self, texts: Sequence[str]) -> list[Sentences]:
        """Return the mentions in each sentence of each text, in order."""
        found = self.extractor.extract(texts)
        return [
            self._completed(text, [[Mention(*one) for one in sentence] for sentence in sentences])
            for text, sentences in zip(texts, found, strict=True)
        ]

    def _completed(self, text: str, sentences: list[list[Mention]]) -> list[list[Mention]]:
        matches = self.rules.matches(text)
        if not matches:
            return sentences
        known = sorted({(m.start, m.end) for s in sentences for m in s if m.named})
        kept = [one for one in matches if not _is_inside(one, known)]
        spans = sentence_spans(text)
        starts = [span.start for span in spans]
        for one in kept:
            _put(self._mention(text, one), sentences, starts)
        return sentences

    def _mention(self, text: str, one: RuleMatch) -> Mention:
        entity = one.name or " ".join(text[one.start : one.end].split())
        entity = simplified(entity) if self.language == CHINESE else entity
        return Mention(entity, one.start, one.end, one.label)


def extractor_of(recorded: str) -> RuledExtractor:
    """Return the extractor with a `recorded_name`.

    Raises:
        InvalidInputError: If the name is damaged.
    """
    from e2graphrag_integrations.entities.chinese.extractor import ChineseEntityExtractor
    from e2graphrag_integrations.entities.rule_extractor import RuleBasedExtractor
    from e2graphrag_integrations.entities.spacy_extractor import SpacyEntityExtractor

    try:
        value = json.loads(recorded)
        rules = EntityRules(value["patterns"])
        extractor: EntityExtractor
        if "model" in value:
            extractor = SpacyEntityExtractor(value["model"])
        elif value["is_chinese"]:
            extractor = ChineseEntityExtractor()
        else:
            extractor = RuleBasedExtractor(value["language"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidInputError(
            f"the recorded rules of the entities are damaged: {error}"
        ) from error
    return RuledExtractor(extractor, rules)


def _is_inside(one: RuleMatch, names: Sequence[tuple[int, int]]) -> bool:
    """Return whether a longer name contains a match."""
    return any(
        start <= one.start and one.end <= end and end - start > one.end - one.start
        for start, end in names
    )


def _put(mention: Mention, sentences: list[list[Mention]], starts: Sequence[int]) -> None:
    """Add a mention to its sentence, in place of those that it overlaps."""
    number = bisect_right(starts, mention.start)
    home = None
    for at, sentence in enumerate(sentences):
        if any(bisect_right(starts, one.start) == number for one in sentence):
            home = at if home is None else home
        sentence[:] = [o for o in sentence if o.end <= mention.start or mention.end <= o.start]
    if home is None:
        # No mention shows which of the sentences it is: an empty one between its neighbors.
        before = [at for at, own in enumerate(sentences) if own and own[0].start < mention.start]
        home = before[-1] + 1 if before else 0
        if home == len(sentences) or sentences[home]:
            sentences.insert(home, [])
    sentences[home] = sorted([*sentences[home], mention], key=lambda one: (one.start, one.end))


# Checks


def _parsed(text: str, where: str, advice: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableFileError(f"{where} is not JSON ({error}): {advice}") from error


def _checked(rule: Any, where: str) -> dict[str, Any]:
    if not isinstance(rule, Mapping) or not {"label", "pattern"} <= set(rule) <= _FIELDS:
        raise InvalidInputError(
            f"{where} is {short_repr(rule)}: give it a label and a pattern, such as "
            '{"label": "drug", "pattern": "aspirin"}'
        )
    label = check_name(f"label of {where}", rule["label"]).strip()
    if label.casefold() == COMMON_NOUN or ":" in label or len(label) > _MAX_LABEL:
        raise InvalidInputError(
            f"label {short_repr(label)} of {where}: choose another word without a colon, of at "
            f"most {_MAX_LABEL} characters"
        )
    checked: dict[str, Any] = {"label": label, "pattern": _checked_pattern(rule["pattern"], where)}
    if "id" in rule:
        checked["id"] = check_name(f"id of {where}", rule["id"])
    return checked


def _checked_pattern(pattern: Any, where: str) -> str | list[dict[str, Any]]:
    if isinstance(pattern, str):
        if not 0 < len(TOKEN.findall(check_name(f"pattern of {where}", pattern))) <= MAX_TOKENS:
            raise InvalidInputError(f"the phrase of {where} must have 1 to {MAX_TOKENS} tokens")
        return pattern
    if not isinstance(pattern, list | tuple) or not 0 < len(pattern) <= MAX_TOKENS:
        raise InvalidInputError(
            f"the pattern {short_repr(pattern)} of {where} must be a phrase, or a list with the "
            f"attributes of 1 to {MAX_TOKENS} tokens"
        )
    for token in pattern:
        _check_token(token, where)
    operators = [token["OP"] for token in pattern if "OP" in token]
    if "+" not in operators and len(operators) == len(pattern):
        raise InvalidInputError(f"the pattern of {where} matches an empty text: require a token")
    repeating = len(operators) - operators.count("?")
    if len(operators) > _MAX_OPERATORS or repeating > _MAX_REPETITIONS:
        raise InvalidInputError(
            f"the pattern of {where} has {len(operators)} tokens with OP, of which {repeating} may "
            f"repeat; more than {_MAX_OPERATORS} and {_MAX_REPETITIONS} would take too long: "
            "divide it into several rules"
        )
    return [dict(token) for token in pattern]


def _check_token(token: Any, where: str) -> None:
    if not isinstance(token, Mapping):
        raise InvalidInputError(f"{short_repr(token)} in {where} must map attributes to values")
    for key, value in token.items():
        if not (
            (key == "OP" and value in _OPERATORS)
            or (key in _FLAGS and isinstance(value, bool))
            or (key in _TEXTS and _is_text(value))
        ):
            raise InvalidInputError(
                f"{short_repr(key)}: {short_repr(value)} in {where} is not supported: use TEXT, "
                f"LOWER or SHAPE with a string, IN or NOT_IN, {', '.join(_FLAGS)} with true or "
                f"false, or OP with one of {', '.join(_OPERATORS)}"
            )


def _is_text(value: Any) -> bool:
    if isinstance(value, dict) and set(value) in ({"IN"}, {"NOT_IN"}):
        [texts] = value.values()
        return isinstance(texts, list | tuple) and all(isinstance(one, str) for one in texts)
    return isinstance(value, str)
