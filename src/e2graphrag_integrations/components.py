"""The parts an index works with: resolved by name, loaded late, held to its manifest.

The manifest names every part, so that a file opens with the models it was made with. Opening loads
none of them; each is checked against the manifest when it is first used.
"""

from __future__ import annotations

import inspect
import os
import threading
import uuid
from collections.abc import Mapping
from typing import Any

from e2graphrag_integrations._utils.validation import (
    check_name,
    check_protocol,
    instance_or_default,
    type_name,
)
from e2graphrag_integrations.embedders.fingerprints import (
    embedder_fingerprint,
    object_fingerprint,
    same_embedder,
)
from e2graphrag_integrations.embedders.sentence_transformers import (
    HashingEmbedder,
    SentenceTransformerEmbedder,
)
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.entities.spacy_extractor import SpacyEntityExtractor
from e2graphrag_integrations.errors import InvalidInputError, SettingsMismatchError
from e2graphrag_integrations.protocols import Embedder, EntityExtractor, Summarizer, TokenCounter
from e2graphrag_integrations.summarizers.callable import (
    CallableSummarizer,
    NamedSummarizer,
    Prompts,
)
from e2graphrag_integrations.summarizers.lexrank import ExtractiveSummarizer
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter

HASHING = "hashing"
_SESSION = "session:"


def embedder_from_name(name: str) -> Embedder:
    """Return the embedder of a name: `"hashing"`, or any sentence-transformers name or path."""
    return HashingEmbedder() if name == HASHING else SentenceTransformerEmbedder(name)


class Components:
    """Embedder, extractor, summarizer and token counter of one open index.

    Args:
        path: Of the index, for messages.
        manifest: What it was made with; empty for a new one.
        embedder, extractor: Objects, names, or None for those of the manifest or the defaults.
        summarizer: Object, callable, or None for the extractive default.
        token_counter: Object, or None for the approximate default.
        summarizer_id: Names a callable summarizer in the cache.
        prompts: For a callable summarizer.

    Raises:
        InvalidInputError: For a part that lacks a method of its port.
        SettingsMismatchError: For a part that is plainly not the one the index was made with.
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
    ) -> None:
        self._path = path
        self._manifest = dict(manifest)
        self._lock = threading.RLock()
        self._windowed: WindowedEmbedder | None = None
        self._embedder_print: str | None = None
        self._extractor_print: str | None = None
        self._embedder = self._resolve_embedder(embedder)
        self._extractor = self._resolve_extractor(extractor)
        self.counter = ApproximateTokenCounter() if token_counter is None else token_counter
        check_protocol("token_counter", self.counter, TokenCounter)
        self.summarizer = _resolve_summarizer(summarizer, summarizer_id, prompts, self.counter)
        own = getattr(self.summarizer, "fingerprint", None)
        # Two models of one class must not share summaries: who has no name has a new one each time.
        self.summarizer_print = str(own) if own else f"{_SESSION}{uuid.uuid4().hex}"
        self._is_given = embedder is not None

    def _resolve_embedder(self, given: Embedder | str | None) -> Embedder | None:
        if given is None:
            made = self._manifest.get("embedder_model")
            if made is None and "embedder" not in self._manifest:
                return SentenceTransformerEmbedder()
            return embedder_from_name(made) if made else None
        if isinstance(given, str):
            return embedder_from_name(check_name("embedder", given))
        check_protocol("embedder", given, Embedder)
        return given

    def _resolve_extractor(
        self, given: EntityExtractor | str | os.PathLike[str] | None
    ) -> EntityExtractor | None:
        if given is None:
            made = self._manifest.get("extractor_model")
            if made is None and "extractor" not in self._manifest:
                return SpacyEntityExtractor()
            return SpacyEntityExtractor(made) if made else None
        if isinstance(given, str):
            return SpacyEntityExtractor(check_name("extractor", given))
        if isinstance(given, os.PathLike):
            return SpacyEntityExtractor(given)
        check_protocol("extractor", given, EntityExtractor)
        return given

    def check_embedder(self) -> None:
        """Refuse a given embedder at once, by what costs little to find out.

        Raises:
            SettingsMismatchError: If it is plainly not the one the index was made with.
        """
        made = self._manifest.get("embedder")
        if made is None or self._embedder is None or not self._is_given:
            return
        own = getattr(self._embedder, "fingerprint", None)
        if own is not None and not same_embedder(str(own), made):
            raise self._mismatch("embedder", made, str(own))
        dimension = WindowedEmbedder(self._embedder).dimension if own is None else None
        if dimension is not None and str(dimension) != self._manifest["dimension"]:
            raise SettingsMismatchError(
                f"{self._path} holds vectors of dimension {self._manifest['dimension']}, the given "
                f"embedder makes {dimension}: open it with the embedder it was made "
                "with, or index into a new file"
            )

    def hold_to(self, manifest: Mapping[str, str]) -> None:
        """Check the parts anew when next used if another instance filled the file since opening."""
        with self._lock:
            if manifest and any(self._manifest.get(k) != v for k, v in manifest.items()):
                self._manifest = dict(manifest)
                self._windowed = None
                self._extractor_print = None

    @property
    def embedder(self) -> WindowedEmbedder:
        """The embedder, checked against the manifest at first use."""
        with self._lock:
            if self._windowed is None:
                if self._embedder is None:
                    raise self._absent("embedder")
                windowed = WindowedEmbedder(self._embedder)
                own = embedder_fingerprint(self._embedder)
                made = self._manifest.get("embedder", own)
                dimension = self._manifest.get("dimension", str(windowed.dimension))
                if dimension != str(windowed.dimension) or not same_embedder(own, made):
                    raise self._mismatch("embedder", f"{made} ({dimension}-d)", own)
                # Of two prints of the same vectors, the first stays: it is in the cache keys.
                self._embedder_print = made
                self._windowed = windowed
            return self._windowed

    @property
    def extractor(self) -> EntityExtractor:
        """The extractor, checked against the manifest at first use."""
        with self._lock:
            if self._extractor is None:
                raise self._absent("extractor")
            if self._extractor_print is None:
                own = object_fingerprint(self._extractor)
                made = self._manifest.get("extractor", own)
                if own != made:
                    raise self._mismatch("extractor", made, own)
                self._extractor_print = own
            return self._extractor

    @property
    def embedder_print(self) -> str:
        """The embedder's part of cache keys."""
        _ = self.embedder
        return self._embedder_print or ""

    @property
    def extractor_print(self) -> str:
        """The extractor's part of cache keys."""
        _ = self.extractor
        return self._extractor_print or ""

    def check_for_writing(self) -> dict[str, str]:
        """Hold every part to the manifest and return the entries to keep in it.

        Raises:
            SettingsMismatchError: If nodes made now would not be like those in the file.
        """
        stable = not self.summarizer_print.startswith(_SESSION)
        entries = {
            "embedder": self.embedder_print,
            "embedder_model": _model_name(self._embedder),
            "dimension": str(self.embedder.dimension),
            "extractor": self.extractor_print,
            "extractor_model": _model_name(self._extractor),
            "summarizer": self.summarizer_print if stable else "callable",
            "token_counter": object_fingerprint(self.counter),
        }
        for part in ("token_counter", "summarizer"):
            made = self._manifest.get(part, entries[part])
            if made != entries[part]:
                raise self._mismatch(part, made, entries[part])
        self._manifest |= entries
        return entries

    def check_like(self, made_with: Mapping[str, str]) -> None:
        """Hold the models to those that documents were given for which wait to be indexed.

        Raises:
            SettingsMismatchError: If they would be summarized, or read, in another way.
        """
        now = self.check_for_writing()
        for part in ("embedder", "extractor", "summarizer", "token_counter"):
            if made_with.get(part, now[part]) != now[part]:
                raise SettingsMismatchError(
                    f"{self._path} has documents waiting for the {part} {_short(made_with[part])}, "
                    f"not {_short(now[part])}: open it with that one, or add() them again"
                )

    def _absent(self, part: str) -> SettingsMismatchError:
        return SettingsMismatchError(
            f"{self._path} was made with the {part} {self._manifest[part]}, which cannot be made "
            f"from its name: pass {part}= when opening"
        )

    def _mismatch(self, part: str, made: str, own: str) -> SettingsMismatchError:
        return SettingsMismatchError(
            f"{self._path} was made with the {part} {_short(made)}, not {_short(own)}: open it "
            f"with the {part} it was made with, or index into a new file"
        )


def _short(fingerprint: str) -> str:
    limit = 120
    return fingerprint if len(fingerprint) <= limit else fingerprint[:limit] + "..."


def _model_name(component: object) -> str:
    """Return the name from which the component can be made again, empty if there is none."""
    if isinstance(component, HashingEmbedder):
        return HASHING if component.fingerprint == HashingEmbedder().fingerprint else ""
    if isinstance(component, SentenceTransformerEmbedder):
        return component.model
    if isinstance(component, SpacyEntityExtractor) and component.remade_by_name:
        return str(component.model)
    return ""


def _resolve_summarizer(
    given: Summarizer | Any | None,
    summarizer_id: str | None,
    prompts: Prompts | None,
    counter: TokenCounter,
) -> Summarizer:
    if summarizer_id is not None:
        check_name("summarizer_id", summarizer_id)
    given_prompts = instance_or_default("prompts", prompts, Prompts)
    _check_applies(given, summarizer_id, prompts)
    if given is None:
        return ExtractiveSummarizer(counter=counter)
    is_class = inspect.isclass(given)
    if isinstance(given, Summarizer) and not is_class:
        return given if summarizer_id is None else NamedSummarizer(given, summarizer_id)
    if not callable(given) or is_class:
        raise InvalidInputError(
            f"summarizer ({type_name(given)}) is neither callable nor has a method "
            "summarize(texts, *, level, max_tokens)"
        )
    return CallableSummarizer(given, summarizer_id, given_prompts)


def _check_applies(given: object, summarizer_id: str | None, prompts: Prompts | None) -> None:
    """Refuse options that the given summarizer would silently ignore."""
    plain = given is not None and not isinstance(given, Summarizer)
    if prompts is not None and not plain:
        raise InvalidInputError(
            "prompts= is for a plain function: give the prompts to the summarizer object itself"
        )
    if summarizer_id is not None and (given is None or getattr(given, "fingerprint", None)):
        raise InvalidInputError(
            f"summarizer_id={summarizer_id!r} is for a function or an object without a fingerprint "
            "of its own"
        )
