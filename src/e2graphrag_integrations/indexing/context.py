"""The models, settings and store that the stages of the pipeline work with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from e2graphrag_integrations._utils.event_loop import OwnLoop
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.indexing.planning import Planner, plan_document
from e2graphrag_integrations.indexing.run import IndexingRun
from e2graphrag_integrations.indexing.summaries import SummaryBuilder
from e2graphrag_integrations.protocols import EntityExtractor, TokenCounter
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.store.records import DocumentSink
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.summarizers.retry import RetryPolicy
from e2graphrag_integrations.tree import Tree
from e2graphrag_integrations.types import SourceDocument


@dataclass(frozen=True)
class OpenIndex:
    """An open index file, its models, and the options of `E2GraphRAG.open`.

    Attributes:
        store: The file.
        settings: How documents are split and summarized.
        components: The models.
        planner: Builds document trees.
        concurrency: Maximum number of simultaneous summarizer calls.
        retry: Retry policy for transient errors of the summarizer.
        loop: Runs the coroutines of an async summarizer during synchronous calls.
    """

    store: Store
    settings: Settings
    components: Components
    planner: Planner
    concurrency: int
    retry: RetryPolicy
    loop: OwnLoop = field(default_factory=OwnLoop)

    def summary_builder(self, run: IndexingRun) -> SummaryBuilder:
        """Return a new summary builder, with its own usage counts."""
        return SummaryBuilder.create(
            self.components,
            self.settings,
            retry=self.retry,
            store=self.store,
            runner=run.runner or self.loop,
            summarizer=run.summarizer,
        )


@dataclass(frozen=True)
class IndexingContext:
    """The inputs that all documents of a run share. Every model is already checked.

    Attributes:
        store: Receives documents and caches results.
        manifest: Settings and fingerprints, written with each document.
        settings: How documents are split and summarized.
        counter: Measures texts.
        embedder, embedder_fingerprint: The embedder and its part of the cache keys.
        extractor, extractor_fingerprint: The extractor and its part of the cache keys.
        summaries: Creates summaries.
        concurrency: Maximum number of simultaneous summarizer calls.
        planner: Builds document trees.
    """

    store: DocumentSink
    manifest: Mapping[str, str]
    settings: Settings
    counter: TokenCounter
    embedder: WindowedEmbedder
    embedder_fingerprint: str
    extractor: EntityExtractor
    extractor_fingerprint: str
    summaries: SummaryBuilder
    concurrency: int
    planner: Planner = plan_document

    @classmethod
    def create(
        cls,
        components: Components,
        settings: Settings,
        *,
        store: DocumentSink,
        manifest: Mapping[str, str],
        summaries: SummaryBuilder,
        concurrency: int,
        planner: Planner = plan_document,
    ) -> IndexingContext:
        """Return a context with the models of an index.

        Raises:
            SettingsMismatchError: If a model differs from the one that built the index.
        """
        return cls(
            store=store,
            manifest=manifest,
            settings=settings,
            counter=components.counter,
            embedder=components.embedder,
            embedder_fingerprint=components.embedder_fingerprint,
            extractor=components.extractor,
            extractor_fingerprint=components.extractor_fingerprint,
            summaries=summaries,
            concurrency=concurrency,
            planner=planner,
        )

    def plan(self, document: SourceDocument) -> Tree:
        """Return the tree of a document; summaries have no text yet."""
        return self.planner(document, self.settings, self.counter)
