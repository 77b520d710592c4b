"""Stage `enrich`: ask a language model about each chunk, and embed the sentences of its answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

from e2graphrag_integrations._utils.failures import redact_error
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.enrichment.answers import read_answer
from e2graphrag_integrations.errors import E2GraphRAGError, IndexingError, StoreError
from e2graphrag_integrations.indexing.run import RunControl, WorkStopped
from e2graphrag_integrations.indexing.stages.embedding import EmbedderSource, embed_texts
from e2graphrag_integrations.indexing.stages.summaries import SummaryBuilder
from e2graphrag_integrations.reports import LevelEstimate, Stage
from e2graphrag_integrations.store.records import ATTACHED, ContentCache
from e2graphrag_integrations.text.tokens import count_tokens
from e2graphrag_integrations.tree import Tree
from e2graphrag_integrations.types import Node, SourceDocument

_LEVEL = 0
"""Level of an answer in cache keys and estimates: it is about a chunk, below all summaries."""

_BEGINNING = 600
"""Maximum number of characters of the beginning of a document in the prompt of a later chunk."""

Texts = tuple[str, str, str]
"""The title of a document, its beginning and the text of a chunk."""


class EnrichmentError(IndexingError):
    """The model of an enricher failed for a chunk; finished answers are kept."""


@dataclass(frozen=True)
class ChunkPrompt:
    """The part of the prompt that depends on the chunk.

    Attributes:
        node: The chunk.
        texts: The title, the beginning of the document, and the text.
    """

    node: Node
    texts: Texts


@dataclass(frozen=True)
class Sentences:
    """The sentences that an answer adds to a chunk.

    Attributes:
        document_id: The document of the chunk.
        prefix: The text prepended to each of them, which is that of the windows of the document.
        texts: The sentences.
    """

    document_id: str
    prefix: str
    texts: Sequence[str]

    @classmethod
    def of(cls, node: Node, prefixes: Mapping[str, str], answer: str) -> Self:
        """Return the sentences of an answer about a chunk, given the prefixes by document id."""
        document_id = node.document_id
        return cls(document_id, prefixes[document_id], read_answer(answer).sentences)


def prompts_of(document: SourceDocument, chunks: Sequence[Node]) -> Iterator[ChunkPrompt]:
    """Yield the part of the prompt that depends on the chunk, for each chunk of a document."""
    for number, node in enumerate(chunks):
        # Of the first chunk only, so that an edit of later ones does not change all prompts.
        beginning = chunks[0].text[:_BEGINNING] if number else ""
        yield ChunkPrompt(node, (document.title or "", beginning, node.text))


@dataclass(frozen=True)
class EnrichmentStage:
    """The stage `enrich` of one run; see `ChunkStage`.

    Attributes:
        asking: Asks the model about the texts of a chunk, or finds its answer in the cache.
        embedder: Embeds the sentences of the answers.
        llm: The model, whose keys no message may contain.
    """

    asking: SummaryBuilder
    embedder: EmbedderSource
    llm: object = None

    @property
    def stage(self) -> Stage:
        """The name of the stage."""
        return "enrich"

    @property
    def model(self) -> str:
        """The name of the language model."""
        return self.asking.model

    @property
    def entries(self) -> Mapping[str, str]:
        """The entry in the manifest of an index with enriched chunks."""
        return MappingProxyType({ATTACHED: "1"})

    def cost(self) -> EnrichmentCost:
        """Return a new counter of calls."""
        return EnrichmentCost(self.asking)

    def ask(
        self,
        documents: Sequence[SourceDocument],
        trees: Sequence[Tree],
        control: RunControl,
        pool: Executor,
    ) -> Mapping[str, tuple[ChunkPrompt, str]]:
        """Return the answers about the chunks, by node id; see `ChunkStage.ask`."""
        calls = _Calls(self.asking, control, self.llm)
        prompts = [
            prompt
            for document, tree in zip(documents, trees, strict=True)
            if tree.levels
            for prompt in prompts_of(document, tree.levels[0])
        ]
        futures = [pool.submit(calls.run, prompt) for prompt in prompts]
        wait(futures)
        if calls.failure is not None:
            raise calls.failure
        if calls.was_stopped:
            raise WorkStopped
        answers = zip(prompts, (future.result() for future in futures), strict=True)
        return {one.node.id: (one, answer) for one, answer in answers if answer is not None}

    def attach(
        self,
        answers: Mapping[str, tuple[ChunkPrompt, str]],
        prefixes: Mapping[str, str],
        control: RunControl,
    ) -> Mapping[str, tuple[bytes, ...]]:
        """Embed the sentences of the answers; return the keys of answers and vectors by node id."""
        failed = control.failures.failed
        sentences = {
            id_: Sentences.of(one.node, prefixes, answer)
            for id_, (one, answer) in answers.items()
            if one.node.document_id not in failed
        }
        vectors = embed_sentences(self.embedder, sentences, self.asking.store, control)
        return {
            id_: (self.asking.key(answers[id_][0].texts, _LEVEL), *keys)
            for id_, keys in vectors.items()
            if sentences[id_].document_id not in failed
        }


def embed_sentences(
    source: EmbedderSource,
    sentences: Mapping[str, Sentences],
    cache: ContentCache,
    control: RunControl,
) -> dict[str, tuple[bytes, ...]]:
    """Cache the vectors of the sentences of chunks; return their keys by node id.

    Args:
        source: The embedder.
        sentences: The sentences of each chunk, by node id.
        cache: Stores the vectors.
        control: Receives failures; ends the work after a stop request.

    Raises:
        EmbeddingError: If a failure aborts the run.
        WorkStopped: After a stop request.
    """
    embedder, fingerprint = source.embedder, source.embedder_fingerprint
    keys: dict[str, tuple[bytes, ...]] = {}
    texts: dict[bytes, str] = {}
    owners: dict[bytes, list[str]] = {}
    for id_, own in sentences.items():
        spelled = [_within_window(embedder, own.prefix, one) for one in own.texts]
        keys[id_] = tuple(embedder.cache_key(text, fingerprint) for text in spelled)
        for key, text in zip(keys[id_], spelled, strict=True):
            texts[key] = text
            owners.setdefault(key, []).append(own.document_id)
    known = cache.cached(texts)
    missing = {key: text for key, text in texts.items() if key not in known}
    for _ in embed_texts(missing, owners, embedder, cache, control):
        pass
    return keys


def _within_window(embedder: WindowedEmbedder, prefix: str, sentence: str) -> str:
    """Return a sentence with its prefix; one that is longer than a window is cut.

    The answer of a model, unlike a text of the user, needs no second vector for its end.
    """
    first = embedder.windows(sentence, prefix)[0]
    return prefix + sentence[first.start : first.end]


@dataclass
class EnrichmentCost:
    """Counts the calls of the stage; see `ChunkCost`."""

    asking: SummaryBuilder
    chunks: int = 0
    prompt_tokens: int = 0
    counted: set[bytes] = field(default_factory=set)

    def add(self, document: SourceDocument, tree: Tree) -> None:
        """Add a document; cached and repeated chunks need no call."""
        prompts = list(prompts_of(document, tree.levels[0])) if tree.levels else []
        self.chunks += len(prompts)
        keys = {self.asking.key(one.texts, _LEVEL): one for one in prompts}
        known = self.asking.store.cached(keys)
        for key, one in keys.items():
            if key not in known and key not in self.counted:
                self.counted.add(key)
                prompt = self.asking.prompt(one.texts, _LEVEL)
                self.prompt_tokens += count_tokens(self.asking.counter, prompt)

    def total(self) -> LevelEstimate:
        """Return the counts so far, with the chunks as `summaries`."""
        calls = len(self.counted)
        completion_tokens = calls * self.asking.max_tokens
        return LevelEstimate(_LEVEL, self.chunks, calls, self.prompt_tokens, completion_tokens)


@dataclass
class _Calls:
    """Runs calls until a failure aborts the run, and remembers that failure.

    A stop request counts only if a call was not made: a finished batch is written.
    """

    asking: SummaryBuilder
    control: RunControl
    llm: object
    failure: BaseException | None = None
    was_stopped: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, prompt: ChunkPrompt) -> str | None:
        """Return the answer about a chunk; None if its document has failed."""
        control, node = self.control, prompt.node
        stopping, failures = control.stop.no_new_calls, control.failures
        if stopping.is_set():
            self.was_stopped = True
            return None
        try:
            if node.document_id in failures.failed:
                return None
            answer = self.asking.build(prompt.texts, _LEVEL, stopping)
            failures.record_success(EnrichmentError)
        except BaseException as error:  # noqa: BLE001 - of the model: `_handle` converts it
            with self.lock:  # after a stop, a failure may be only a consequence of it
                if stopping.is_set():
                    self.was_stopped = True
                else:
                    self._handle(error, node)
            return None
        finally:
            control.timer.advance("enrich", 1)
        return answer

    def _handle(self, error: BaseException, node: Node) -> None:
        """Skip the document, or abort the run."""
        is_expected = isinstance(error, Exception | asyncio.CancelledError)
        if is_expected and not isinstance(error, StoreError):
            failed = EnrichmentError(
                f"enriching chunk {node.position} of document {node.document_id!r} failed: "
                f"{type(error).__name__}: {redact_error(error, self.llm)}. Finished "
                "answers are kept: fix the cause and index again"
            )
            failed.__cause__ = error
            try:
                self.control.failures.record_failure([node.document_id], failed)
            except E2GraphRAGError as fatal:
                error = fatal
            else:
                return
        self.failure = error
        self.control.stop.no_new_calls.set()
