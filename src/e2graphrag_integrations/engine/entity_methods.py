"""The methods for entities as a whole: edits, tags, communities, and the graph in files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from e2graphrag_integrations._utils.concurrency import CallerLoop, run_in_thread
from e2graphrag_integrations.engine.base import OpenEngine
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.indexing.run import IndexingRun
from e2graphrag_integrations.settings import checked_path

if TYPE_CHECKING:
    from e2graphrag_integrations.entities.edit_arguments import (
        AliasArgument,
        SeparateArgument,
        StopArgument,
        UndoArgument,
    )
    from e2graphrag_integrations.indexing.stages.community_reports import Reports, ReportWriter
    from e2graphrag_integrations.portability.graph_formats import GraphFormat
    from e2graphrag_integrations.portability.property_graph import GraphOptions, PropertyGraph
    from e2graphrag_integrations.retrieval.entities.communities import Community, CommunitySelection
    from e2graphrag_integrations.retrieval.entities.homonyms import HomonymProposal
    from e2graphrag_integrations.retrieval.filters.where import Where
    from e2graphrag_integrations.text.tags import Tag, Tags, TagSet

T = TypeVar("T")


class EntityMethods(OpenEngine):
    """The methods of an index that edit, tag and group what documents are about."""

    def edit_entities(
        self,
        *,
        alias: AliasArgument | None = None,
        separate: SeparateArgument | None = None,
        stop: StopArgument | None = None,
        undo: UndoArgument | None = None,
    ) -> EntityEdits:
        """Correct the entities of the index: either all changes or none.

        Edits apply to the entity graph and to the names in questions, also of documents that are
        added later. They change no extraction and call no model, and each can be undone. Upper and
        lower case do not matter, except to `separate` two spellings of one name.

        Args:
            alias: The name that each alias means, such as `{"Bob": "Robert Smith"}`. Mentions of
                the alias become mentions of that entity. The alias may be new; the entity must be
                in the index, or be an alias itself.
            separate: Pairs of names that never mean the same entity, such as `[("US", "us")]`. To
                separate two entities with one name, pass a proposal of `propose_homonyms`, or the
                name with the documents that mean another entity, such as
                `[("Mercury", {"Mercury (singer)": ["queen.txt"]})]`.
            stop: Names that mean no entity. They need not be in the index.
            undo: Edits to undo first, or their ids. Undoing one leaves all others as they are.

        Returns:
            All edits of the index. If nothing changes, nothing is written.

        Raises:
            InvalidInputError: If an argument is invalid, or the edits contradict each other.
            UnknownEntityError: If the index does not contain the entity of an alias, or neither
                name of a pair.
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
        """
        from e2graphrag_integrations.retrieval.entities.entity_editing import changed_edits
        from e2graphrag_integrations.store.tables.entity_edits import read_edits, write_edits

        with self.write_lock():
            current = read_edits(self._store)
            edits = changed_edits(
                current,
                self._session.snapshot,
                alias=alias,
                separate=separate,
                stop=stop,
                undo=undo,
            )
            if edits != current:
                write_edits(self._store, edits)
            return edits

    async def aedit_entities(
        self,
        *,
        alias: AliasArgument | None = None,
        separate: SeparateArgument | None = None,
        stop: StopArgument | None = None,
        undo: UndoArgument | None = None,
    ) -> EntityEdits:
        """Run `edit_entities` in a thread."""
        return await run_in_thread(
            lambda: self.edit_entities(alias=alias, separate=separate, stop=stop, undo=undo),
            lambda: None,
        )

    def propose_homonyms(
        self, *, prefix: str = "", max_similarity: float | None = None
    ) -> list[HomonymProposal]:
        """Return names that seem to mean several entities, the surest first.

        Documents with a name are about different entities if they share no other rare name and no
        rare value of their metadata, and if their vectors are not similar. Only the names are
        embedded, and nothing is written: `edit_entities(separate=...)` accepts the proposals.

        Args:
            prefix: Start of the names.
            max_similarity: Maximum cosine similarity of documents about different entities. Lower
                values give fewer and surer proposals. None means one with a precision above 0.9 on
                passages of Wikipedia.

        Raises:
            InvalidInputError: If an argument is invalid, or the vectors are not in the index.
            EmbeddingError: If the embedder fails.
        """
        from e2graphrag_integrations.retrieval.entities.homonyms import propose_homonyms

        components = self._index.components
        return self.read_snapshot(
            lambda one, _: propose_homonyms(
                one, components.embedder_for(one.made_with).embed, prefix, max_similarity
            )
        )

    async def apropose_homonyms(
        self, *, prefix: str = "", max_similarity: float | None = None
    ) -> list[HomonymProposal]:
        """Run `propose_homonyms` in a thread."""
        return await asyncio.to_thread(
            self.propose_homonyms, prefix=prefix, max_similarity=max_similarity
        )

    def edits(self) -> EntityEdits:
        """Return the corrections that `edit_entities` made."""
        from e2graphrag_integrations.store.tables.entity_edits import read_edits

        return read_edits(self._store)

    def set_tags(self, tags: Tags | None) -> None:
        """Set the tags that chunks can have, or remove them.

        Chunks are assigned up to three tags each, without a language model: by the similarity of
        their vectors to those of the tags, and by the words of the names. The assignments follow
        every later change of documents. Only the names, descriptions and examples are embedded.

        Args:
            tags: Names, `Tag` objects, or mappings with the keys `name`, `description` and
                `examples`; at most 500. They replace the former tags. None removes all tags.

        Raises:
            InvalidInputError: If the set is empty, a name occurs twice, or a tag is invalid.
                Nothing was written.
            EmbeddingError: If the embedder fails. Nothing was written.
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
        """
        tag_set = self._embedded(tags)
        with self.write_lock():
            self._store.put_tag_set(tag_set)

    def _embedded(self, tags: Tags | None) -> TagSet:
        """Return tags with their vectors, an empty set for None."""
        from e2graphrag_integrations.text.tags import TagSet, as_tags

        if tags is None:
            return TagSet()
        checked, components = as_tags(tags), self._index.components
        components.revalidate(self._store.manifest())
        return components.embed_tags(checked)

    async def aset_tags(self, tags: Tags | None) -> None:
        """Run `set_tags` in a thread."""
        await run_in_thread(lambda: self.set_tags(tags), lambda: None)

    def tag_set(self) -> tuple[Tag, ...]:
        """Return the tags that chunks can have; see `set_tags`."""
        stored = self._store.tag_set()
        return () if stored is None else stored.tags

    def communities(
        self,
        level: int = 0,
        *,
        top: int | None = None,
        where: Where | None = None,
        seed: int = 0,
        reports: Reports | None = "extractive",
        max_llm_calls: int | None = None,
    ) -> tuple[Community, ...]:
        """Return the communities of the entity graph, those with the strongest edges first.

        A language model is called only with `reports="summarizer"`, and only if the index has
        been opened with one. Its reports are cached in the file.

        Args:
            level: Level in the hierarchy; 0 is the coarsest.
            top: Maximum number of communities; None returns all.
            where: Metadata filter. A community is returned only if all chunks under it match.
            seed: Seed of the detection. Equal indexes have equal communities for equal seeds.
            reports: `extractive` selects sentences as reports, `summarizer` lets the summarizer of
                the index write them, and None leaves them out.
            max_llm_calls: Maximum number of LLM calls, without retries; None means that of the
                `WriteOptions` of the index.

        Raises:
            InvalidInputError: If an argument is invalid, or the index does not have the level, or
                if `where` is invalid.
            LLMCallLimitError: If the reports need more than `max_llm_calls` calls. No model was
                called.
            SummaryError: If the summarizer failed. Finished reports of an LLM are kept.
            StoreLockedError: If an LLM writes reports, and another process holds the lock for
                longer than `lock_timeout`.
            StoppedError: If `stop` or `close` was called.
        """
        from e2graphrag_integrations.retrieval.entities.communities import CommunitySelection

        selection = CommunitySelection(level, top, where, seed)
        run = self._run_options(max_llm_calls, None)
        return self._with_reports(selection, reports, run)

    async def acommunities(
        self,
        level: int = 0,
        *,
        top: int | None = None,
        where: Where | None = None,
        seed: int = 0,
        reports: Reports | None = "extractive",
        max_llm_calls: int | None = None,
    ) -> tuple[Community, ...]:
        """Run `communities` in a thread; an async summarizer runs in the caller's event loop."""
        from e2graphrag_integrations.retrieval.entities.communities import CommunitySelection

        selection = CommunitySelection(level, top, where, seed)
        run = self._run_options(max_llm_calls, None)
        run = replace(run, runner=CallerLoop(asyncio.get_running_loop()))
        return await run_in_thread(
            lambda: self._with_reports(selection, reports, run), run.stop.stop_all
        )

    def _with_reports(
        self, selection: CommunitySelection, reports: Reports | None, run: IndexingRun
    ) -> tuple[Community, ...]:
        from e2graphrag_integrations.indexing.stages.community_reports import check_reports
        from e2graphrag_integrations.retrieval.entities.communities import (
            communities_with_sources,
            select_communities,
        )

        check_reports(reports)
        if reports is None:
            return tuple(self.read_snapshot(lambda one, _: select_communities(selection, one)))
        found, sources = self.read_snapshot(
            lambda snapshot, source: communities_with_sources(selection, snapshot, source)
        )
        writer = self._report_writer(reports, selection.level, run)
        with self._caching(run) if writer.uses_llm else nullcontext():
            texts = writer.write(
                sources,
                concurrency=self._writes.concurrency,
                max_llm_calls=run.max_llm_calls,
                stopping=run.stop.no_new_calls,
            )
        return tuple(replace(one, report=text) for one, text in zip(found, texts, strict=True))

    @contextmanager
    def _caching(self, run: IndexingRun) -> Iterator[None]:
        with self._hooks.around_caching(), self._index.exclusive(run):
            yield

    def _report_writer(self, reports: Reports, level: int, run: IndexingRun) -> ReportWriter:
        from e2graphrag_integrations.indexing.stages.community_reports import ReportWriter

        summaries = self._index.summary_builder(run)
        return ReportWriter.of(reports, summaries, self._store, level)


class GraphExports:
    """The methods with which an index writes its property graph to files."""

    def read_graph(self, work: Callable[[PropertyGraph], T], options: GraphOptions) -> T:
        """Return the result of a function of the property graph, for exports and graph stores.

        The graph is that of a single state of the index. If a write changes the index in the
        meantime, the function may be called again.

        Args:
            work: The function.
            options: The contents of the graph.
        """
        raise NotImplementedError

    def export_graph(
        self,
        path: str | os.PathLike[str],
        format: GraphFormat | None = None,  # noqa: A002 - the name that users know
        *,
        texts: bool = True,
        communities: bool = True,
        min_weight: float = 0.0,
    ) -> dict[str, int]:
        """Write the index as a property graph to a new file or folder, in one step.

        The nodes are documents, chunks, summaries, entities and communities. Equal indexes give
        equal bytes.

        Args:
            path: The file or folder to create. Its suffix decides the format: `.graphml`, `.gexf`,
                or `.json` for node-link JSON, which networkx reads. Without a suffix, it is a
                folder of CSV files.
            format: `neo4j-csv`, a folder for `neo4j-admin database import`; `parquet`, a folder
                (extra `parquet`); `graphml`, `gexf` or `json`, a file. None means that of the path.
            texts: Whether to include the texts of chunks and summaries.
            communities: Whether to include the communities of the entities.
            min_weight: Minimum weight of a co-occurrence.

        Returns:
            The number of nodes and relations, by label.

        Raises:
            InvalidInputError: If an argument is invalid, the suffix is unknown or contradicts the
                format, or the path already exists.
            MissingDependencyError: If pyarrow is needed and not installed.
            StoreError: If the path cannot be written. Nothing remains there.
        """
        from e2graphrag_integrations._utils.new_path import check_new
        from e2graphrag_integrations.portability.graph_files import write_graph
        from e2graphrag_integrations.portability.graph_formats import graph_format
        from e2graphrag_integrations.portability.property_graph import GraphOptions

        options = GraphOptions(texts, communities, min_weight)
        target = Path(checked_path(path))
        format_ = graph_format(target, format)
        check_new(target)
        return self.read_graph(lambda graph: write_graph(graph, target, format_), options)

    async def aexport_graph(
        self,
        path: str | os.PathLike[str],
        format: GraphFormat | None = None,  # noqa: A002 - the name that users know
        *,
        texts: bool = True,
        communities: bool = True,
        min_weight: float = 0.0,
    ) -> dict[str, int]:
        """Run `export_graph` in a thread."""
        return await asyncio.to_thread(
            self.export_graph,
            path,
            format,
            texts=texts,
            communities=communities,
            min_weight=min_weight,
        )
