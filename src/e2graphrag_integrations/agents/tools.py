"""The tools for agents, as functions of an index; they only read.

The tools use few public methods of an index, so that a reader of a part of it can take its place.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any

from pydantic import Field

from e2graphrag_integrations._utils.failures import redact
from e2graphrag_integrations._utils.validation import check_int
from e2graphrag_integrations.agents.answers import (
    EntityAnswer,
    Entry,
    Hit,
    HopEntry,
    MentionEntry,
    OutlineAnswer,
    PathAnswer,
    PathEntry,
    ReadAnswer,
    SearchAnswer,
)
from e2graphrag_integrations.agents.budget import (
    DEFAULT_LIMIT,
    MAX_TOKENS,
    MIN_TOKENS,
    Budget,
    as_json,
    count,
    longest,
    with_short_text,
)
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import InvalidInputError, UnknownDocumentError
from e2graphrag_integrations.pages import describe_pages
from e2graphrag_integrations.retrieval.outline import document_row, list_documents
from e2graphrag_integrations.retrieval.result import GAP, RetrievedNode
from e2graphrag_integrations.retrieval.strategies.hybrid import HybridStrategy
from e2graphrag_integrations.retrieval.strategy import MAX_QUESTION
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.span_sets import merge_spans, subtract_spans
from e2graphrag_integrations.types import SourceDocument, Span
from e2graphrag_integrations.views.documents import Readable
from e2graphrag_integrations.views.graph import find_connection
from e2graphrag_integrations.views.metadata import metadata_view
from e2graphrag_integrations.views.tree import TreeNode, document_tree, node_children

MAX_OFFSET = 1_000_000

_STEP_TOKENS = 1_500
"""Token budget of the first retrieval for a search; each further one has as much more."""

_STEPS = 10
"""Maximum number of retrievals for a search."""

_PAGE = 200
"""Maximum number of entries, or of mentions, in one answer."""

_EXCERPT = 400
"""Maximum number of characters of a node's text in an outline."""

_NEIGHBORS = 20

_COPIES = 20
"""Maximum number of documents that are named because they have the text of a passage, too."""

MAX_HITS = 100
"""Maximum number of passages in one answer."""

_SAMPLES = 5
"""Number of values that are shown for a metadata key."""

_SAMPLE_LENGTH = 60
"""Maximum number of characters of such a value."""

_EXACT = HybridStrategy(
    dense_weight=0,
    entity_weight=0,
    title_link_weight=0,
    bridge_weight=0,
    joined_weight=0,
    include_summaries=False,
    use_aliases=False,
)
"""Ranks chunks by their words and codes only."""


_MAX_IDS = 1_000
_MAX_NAME = 1_000

# The limits are those of the schemas that agents get.
_Offset = Annotated[int, Field(ge=0)]
_MaxTokens = Annotated[int | None, Field(ge=MIN_TOKENS, le=MAX_TOKENS)]
_Name = Annotated[str, Field(max_length=_MAX_NAME)]
_Id = Annotated[str | None, Field(max_length=_MAX_NAME)]
_DocumentIds = Annotated[list[_Name] | None, Field(max_length=_MAX_IDS)]
_Where = Annotated[dict[str, Any] | None, Field(description='Such as {"year": {"$gte": 1890}}.')]
_Limit = Annotated[int | None, Field(ge=1, le=MAX_HITS)]


class IndexTools:
    """The tools over one index, whose annotations say what agents may pass.

    Args:
        index: The index.
        limit: Maximum number of tokens in an answer. A call may ask for fewer.

    Raises:
        InvalidInputError: If the limit is out of range.
    """

    def __init__(self, index: Readable, limit: int = DEFAULT_LIMIT) -> None:
        self._index = index
        self.limit = check_int("max_tokens", limit, MIN_TOKENS, MAX_TOKENS)

    def search(  # noqa: PLR0917 - the arguments are those of the tool
        self,
        question: Annotated[str, Field(max_length=MAX_QUESTION)],
        document_ids: _DocumentIds = None,
        where: _Where = None,
        limit: _Limit = None,
        min_relevance: Annotated[float | None, Field(ge=0, le=1)] = None,
        exact: bool = False,
        as_of: str | None = None,
        offset: _Offset = 0,
        max_tokens: _MaxTokens = None,
    ) -> SearchAnswer:
        """Return the passages that best answer a question.

        Args:
            question: The question.
            document_ids: The only documents to search; None means all, and so does an empty list,
                with which models often fill an argument that they do not need.
            where: Metadata filter.
            limit: Maximum number of passages; None means as many as fit.
            min_relevance: Least relevance of a passage, from 0 to 1.
            exact: Whether to rank by the words of the question only, without embedding it.
            as_of: A date, to find only what held then.
            offset: Number of passages to skip.
            max_tokens: Maximum number of tokens in the answer.

        Raises:
            InvalidInputError: If an argument is invalid or out of range.
            UnknownDocumentError: If a document is not in the index.
        """
        budget, offset = self._budget(max_tokens), _check_offset(offset)
        most = MAX_HITS if limit is None else check_int("limit", limit, 1, MAX_HITS)
        hits = self._hits(
            question,
            where=self._filter(document_ids, where),
            min_relevance=min_relevance,
            strategy=_EXACT if exact else None,
            as_of=as_of,
        )
        base = SearchAnswer([], None, self._note())
        chosen, more = budget.fit(base, islice(hits, offset, offset + most + 1), _short_hit)
        more, chosen = more or len(chosen) > most, chosen[:most]
        return replace(base, hits=chosen, next_offset=offset + len(chosen) if more else None)

    def _note(self) -> str | None:
        """Return what is not indexed and who writes; None in a scope, or if there is nothing."""
        if not isinstance(self._index, E2GraphRAG):
            return None
        return redact(self._index.state().note()) or None

    def _filter(
        self, document_ids: Sequence[str] | None, where: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        parts: list[Mapping[str, Any]] = [] if where is None else [where]
        if document_ids:
            ids = list(document_ids)
            self._index.read_snapshot(
                lambda snapshot, _: [document_row(snapshot, id_) for id_ in ids]
            )
            parts.append({"document_id": {"$in": ids}})
        return {"$and": parts} if len(parts) > 1 else next(iter(parts), None)

    def _hits(self, question: str, **options: Any) -> Iterator[Hit]:
        """Yield passages, best first, each text once.

        A larger token budget adds windows to those of a smaller one. The passages do not depend on
        the budget of the call, so that `offset` continues where the last answer ended.
        """
        shown: dict[str, list[Span]] = defaultdict(list)
        summaries: set[str] = set()
        for step in range(1, _STEPS + 1):
            result = self._index.retrieve(question, token_budget=step * _STEP_TOKENS, **options)
            for node in result.nodes:
                if node.level == 0:
                    free = _unseen_pieces(node, shown[node.document_id])
                    shown[node.document_id] = merge_spans([*shown[node.document_id], *node.spans])
                else:
                    free = [] if node.node_id in summaries else list(node.pieces)
                    summaries.add(node.node_id)
                if free:
                    yield _hit(node, free)
            if not result.trace.cuts.get("token_budget"):
                return

    def read(
        self,
        document_id: _Name,
        start: _Offset = 0,
        end: Annotated[int | None, Field(ge=0)] = None,
        max_tokens: _MaxTokens = None,
    ) -> ReadAnswer:
        """Return the text of a document from `start`, or a span with as much around it as fits.

        Raises:
            InvalidInputError: If an argument is invalid or out of range.
            UnknownDocumentError: If the document is not in the index.
        """
        budget = self._budget(max_tokens)
        try:
            document = self._index.document(document_id)
        except UnknownDocumentError as error:  # its message has the place of the index
            raise UnknownDocumentError(
                f"no document {document_id!r} in the index: `outline` lists the documents"
            ) from error
        text, size = document.text, len(document.text)
        start = check_int("start", start, 0, size)
        empty = ReadAnswer(document_id, document.title, size, size, "", size)
        left = budget.tokens - count(as_json(empty))

        def fits(first: int, last: int) -> bool:
            return count(as_json(replace(empty, text=text[first:last]))) <= budget.tokens

        most = 8 * max(left, 0)
        if end is not None:
            end = check_int("end", end, start, size)
            if end - start <= most and fits(start, end):
                first, last = start, end
                around = longest(lambda n: fits(max(0, first - n), min(size, last + n)), most)
                start, end = max(0, first - around), min(size, last + around)
                return self._part(document, start, end)
        stop = start + longest(lambda n: fits(start, min(size, start + n)), min(most, size - start))
        if stop == start < size:
            raise InvalidInputError(f"max_tokens={budget.tokens} is too low: allow more")
        if stop < size:  # cut between words if there is white space nearby
            space = text.rfind(" ", start + 1, stop)
            stop = space if stop - space < min(50, stop - start) else stop
        return self._part(document, start, stop)

    @staticmethod
    def _part(document: SourceDocument, start: int, end: int) -> ReadAnswer:
        rest = end if end < len(document.text) else None
        return ReadAnswer(document.id, document.title, start, end, document.text[start:end], rest)

    def outline(
        self,
        document_id: _Id = None,
        node_id: _Id = None,
        offset: _Offset = 0,
        max_tokens: _MaxTokens = None,
    ) -> OutlineAnswer:
        """Return all documents, the top of a document's tree, or the nodes under a node.

        Raises:
            InvalidInputError: If an argument is invalid or out of range.
            UnknownDocumentError: If the document is not in the index.
        """
        budget, offset = self._budget(max_tokens), _check_offset(offset)
        if document_id is not None and node_id is not None:
            raise InvalidInputError("give document_id or node_id, but not both")
        keys: dict[str, list[Any]] | None = None
        note: str | None = None
        if document_id is None and node_id is None:
            note = self._note()
            (documents, total), keys = self._index.read_snapshot(
                lambda snapshot, _: (
                    list_documents(snapshot, offset, offset + _PAGE),
                    _metadata_keys(snapshot, budget.tokens // 4) if not offset else None,
                )
            )
            found = [Entry(one.id, 0, one.end, one.chunks, one.title) for one in documents]
        else:
            tree = (
                document_tree(self._index, str(document_id), offset, _PAGE)
                if node_id is None
                else node_children(self._index, node_id, offset, _PAGE)
            )
            found, total = [_entry(node) for node in tree.nodes], tree.total
        if offset and offset >= total:
            raise InvalidInputError(f"offset={offset} is beyond the last of {total} entries")
        base = OutlineAnswer([], total, None, keys or None, note)
        chosen, _ = budget.fit(base, found, with_short_text)
        end = offset + len(chosen)
        return replace(base, entries=chosen, next_offset=end if end < total else None)

    def entity(
        self, name: _Name, offset: _Offset = 0, max_tokens: _MaxTokens = None
    ) -> EntityAnswer:
        """Return an entity with its neighbors and the sentences that mention it.

        Raises:
            InvalidInputError: If an argument is invalid or out of range.
            UnknownEntityError: If the index has no such entity.
        """
        budget, offset = self._budget(max_tokens), _check_offset(offset)
        details = self._index.entity(name, top=offset + _PAGE + 1)
        mentions = [
            MentionEntry(one.document_id, one.sentence_start, one.sentence_end, one.sentence)
            for one in details.mentions[offset:]
        ]
        if offset and not mentions:
            raise InvalidInputError(f"offset={offset} is beyond the last mention")
        base = EntityAnswer(
            details.info.name,
            details.info.type,
            list(details.info.aliases[:_NEIGHBORS]),
            details.info.mentions,
            details.info.documents,
            [neighbor.name for neighbor in details.neighbors[:_NEIGHBORS]],
            list(details.subject_of[:_NEIGHBORS]),
            [],
            None,
        )
        for names in (base.neighbors, base.subject_of, base.aliases):
            while names and count(as_json(base)) > budget.tokens // 2:
                names.pop()
        chosen, more = budget.fit(base, mentions[:_PAGE], with_short_text)
        more = more or len(mentions) > _PAGE
        return replace(base, mentions=chosen, next_offset=offset + len(chosen) if more else None)

    def path(
        self, source: _Name, target: _Name, offset: _Offset = 0, max_tokens: _MaxTokens = None
    ) -> PathAnswer:
        """Return the chains of entities between two names.

        Raises:
            InvalidInputError: If an argument is invalid or out of range.
            UnknownEntityError: If the index has no such entity.
        """
        budget, offset = self._budget(max_tokens), _check_offset(offset)
        paths = find_connection(self._index, source, target)
        entries = [
            PathEntry(
                list(path.entities),
                [
                    HopEntry(hop.source, hop.target, hop.document_id, hop.start, hop.end, hop.text)
                    for hop in path.hops
                ],
            )
            for path in paths[offset:]
        ]
        if offset and not entries:
            raise InvalidInputError(f"offset={offset} is beyond the last of {len(paths)} paths")
        chosen, more = budget.fit(PathAnswer([], None), entries, _with_short_hops)
        return PathAnswer(chosen, offset + len(chosen) if more else None)

    def _budget(self, max_tokens: int | None) -> Budget:
        return Budget.of(max_tokens, self.limit)


def _metadata_keys(snapshot: Snapshot, tokens: int) -> dict[str, list[Any]]:
    """Return the keys of the metadata, each with some of its values, in at most `tokens` tokens."""
    samples = {
        key.name: [
            one.value[:_SAMPLE_LENGTH] if isinstance(one.value, str) else one.value
            for one in key.values
        ]
        for key in metadata_view(snapshot, _SAMPLES).keys
    }
    while samples and count(json.dumps(samples, ensure_ascii=False)) > tokens:
        samples.popitem()
    return samples


def _check_offset(offset: int) -> int:
    return check_int("offset", offset, 0, MAX_OFFSET)


def _unseen_pieces(node: RetrievedNode, shown: Sequence[Span]) -> list[tuple[Span, str]]:
    """Return the parts of a chunk's text that have not been shown."""
    pieces = []
    for span, text in node.pieces:
        for free in subtract_spans([span], shown):
            part = text[free.start - span.start : free.end - span.start]
            if part.strip():
                pieces.append((free, part))
    return pieces


def _hit(node: RetrievedNode, pieces: Sequence[tuple[Span, str]]) -> Hit:
    return Hit(
        node.document_id,
        [list(span) for span, _ in pieces],
        GAP.join(text for _, text in pieces),
        round(node.relevance, 3),
        node.level,
        node.node_id if node.level else None,
        node.title,
        describe_pages(node.metadata) or None,
        list(node.also_in[:_COPIES]) or None,
        node.superseded_by,
    )


def _short_hit(hit: Hit, characters: int) -> Hit:
    """Return a hit with at most this many characters of text, and without the names of copies."""
    shortened: Hit = with_short_text(hit, characters)
    return replace(shortened, also_in=None)


def _entry(node: TreeNode) -> Entry:
    entry = Entry(
        node.document_id,
        node.start,
        node.end,
        node.children,
        node_id=node.node_id,
        level=node.level,
        text=node.text,
    )
    shortened: Entry = with_short_text(entry, _EXCERPT)
    return shortened


def _with_short_hops(path: PathEntry, characters: int) -> PathEntry:
    return replace(path, hops=[with_short_text(hop, characters) for hop in path.hops])
