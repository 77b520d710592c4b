"""The versions of the extraction rules, which turn the text of a chunk into mentions.

Version 1 consists of an extractor alone. Version 2 adds the candidates for the subject of a chunk
(`subjects.py`), and spaCy pipelines end a name at a heading. An index names its version in the
fingerprint of its extractor. An index of an older version keeps it, so that no index mixes the
extractions of two versions, until it is extracted again (`indexing/reindex.py`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from e2graphrag_integrations._utils.fingerprints import object_fingerprint
from e2graphrag_integrations._utils.printable import printable
from e2graphrag_integrations.entities.spacy_extractor import SpacyEntityExtractor, extract_checked
from e2graphrag_integrations.entities.subjects import SUBJECT_RULES, with_subjects
from e2graphrag_integrations.protocols import EntityExtractor
from e2graphrag_integrations.text.noise import CleanText, clean
from e2graphrag_integrations.types import Mention

logger = logging.getLogger(__name__)

CURRENT_VERSION = 2
"""Version of the extraction rules with which new indexes are built."""

EXTRACTOR_KEY = re.compile(r"extractor(?:_([a-z]{2,3}))?")
"""Matches the keys in a manifest for the fingerprints of extractors: that of English documents, or
of all of them, and those of documents in other languages."""

_SUFFIX = f"+{SUBJECT_RULES}"


@dataclass(frozen=True, eq=False)
class ChunkExtractor:
    """Extracts the mentions of chunks by one version of the rules.

    Attributes:
        extractor: Finds the entities.
        version: Version of the extraction rules.
    """

    extractor: EntityExtractor
    version: int = CURRENT_VERSION

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the extractor with the rules that are added to it."""
        own = object_fingerprint(self.extractor)
        return own if self.version == 1 else own + _SUFFIX

    def extract(self, texts: Sequence[str], places: Sequence[str]) -> list[list[list[Mention]]]:
        """Return the mentions in each sentence of each text; `places` describe the texts.

        Raises:
            ExtractionError: If the extractor fails or returns an invalid result.
        """
        cleaned = [clean(text) for text in texts]
        found = extract_checked(self.extractor, [one.text for one in cleaned], places)
        if self.version > 1:
            pairs = zip(cleaned, found, strict=True)
            found = [with_subjects(one.text, mentions) for one, mentions in pairs]
        return [_in_original(one, mentions) for one, mentions in zip(cleaned, found, strict=True)]


def _in_original(cleaned: CleanText, sentences: list[list[Mention]]) -> list[list[Mention]]:
    """Return mentions in a text without noise with their spans in the original text."""
    if not cleaned.starts:
        return sentences
    return [
        [Mention(one.entity, *cleaned.original(one.start, one.end), one.label) for one in sentence]
        for sentence in sentences
    ]


def find_version(extractor: EntityExtractor, fingerprint: str) -> ChunkExtractor | None:
    """Return an extractor with the rules of the version that has a fingerprint, if there is one."""
    candidates = [ChunkExtractor(extractor)]
    if isinstance(extractor, SpacyEntityExtractor):
        candidates += [ChunkExtractor(extractor.with_rules(version)) for version in (3, 2)]
        extractor = extractor.with_rules(1)
    candidates.append(ChunkExtractor(extractor, version=1))
    return next((one for one in candidates if one.fingerprint == fingerprint), None)


def own_fingerprint(fingerprint: str) -> str:
    """Return the fingerprint of an extractor without the rules that are added to it."""
    return fingerprint.removesuffix(_SUFFIX)


def index_version(manifest: Mapping[str, str]) -> int:
    """Return the version of the extraction rules that built an index, given its manifest."""
    fingerprints = [value for key, value in manifest.items() if EXTRACTOR_KEY.fullmatch(key)]
    return CURRENT_VERSION if all(one.endswith(_SUFFIX) for one in fingerprints) else 1


def is_outdated(manifest: Mapping[str, str]) -> bool:
    """Return whether an older version of the extraction rules built an index."""
    return index_version(manifest) < CURRENT_VERSION


class OutdatedNotice:
    """Logs one warning if an older version of the extraction rules built an index.

    Args:
        where: Name of the index.
        advice: What to call to extract the index again.
    """

    def __init__(self, where: str, advice: str) -> None:
        self._where = where
        self._advice = advice
        self._is_logged = False

    def check(self, manifest: Mapping[str, str]) -> None:
        """Log the warning, once, if the index with this manifest is outdated."""
        if not self._is_logged and is_outdated(manifest):
            self._is_logged = True
            logger.warning(
                "%s was built with version %d of the extraction rules. It is used as it is, and "
                "new documents are extracted with the same version. Version %d finds the subjects "
                "of documents: to extract the index again, %s. This calls no LLM and no embedder.",
                printable(self._where),
                index_version(manifest),
                CURRENT_VERSION,
                printable(self._advice),
            )
