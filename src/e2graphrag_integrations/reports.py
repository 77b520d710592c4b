"""Results of indexing and maintenance: cost estimates, progress events and reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from e2graphrag_integrations._utils.display import HtmlFields, block, heading, values_table

Stage = Literal["chunk", "extract", "embed", "summarize", "enrich", "write", "evaluate"]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one indexing stage.

    Apart from notes, a run first reports every stage with `done=0`. In each later event, `done` is
    larger than in the event before it of the same stage, and `total` is the same. The last event
    of each stage has `done == total`, unless the run is aborted.

    Attributes:
        stage: Name of the stage: `chunk`, `extract`, `embed` (chunks and summaries), `summarize`,
            `enrich` (chunks) or `write` (documents). A stage without items has no events. The only
            stage of an evaluation is `evaluate` (questions).
        done: Number of finished items, including those of failed documents.
        total: Number of items in the run.
        seconds: Wall time since the stages started, including waits for other stages.
        note: A line to show above the bars, such as the number of LLM calls before the first one;
            usually empty. An event with a note has no figures.
        reused: Number of finished items that needed no work, because an earlier run, or an equal
            item, had their results. They say nothing about the speed.
    """

    stage: Stage
    done: int
    total: int
    seconds: float = 0.0
    note: str = ""
    reused: int = 0

    @property
    def rate(self) -> float:
        """Items per second, without reused ones; 0 before the first of them."""
        return (self.done - self.reused) / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds for the remaining items; None if the rate is 0."""
        return (self.total - self.done) / self.rate if self.rate else None


ProgressListener = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class _Report(HtmlFields):
    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LevelEstimate:
    """The estimated cost of one tree level.

    Attributes:
        level: Level in the tree; level 1 summarizes chunks.
        summaries: Number of summaries at this level.
        llm_calls: Number of summaries that are not cached and need an LLM call.
        prompt_tokens, completion_tokens: Upper bounds on the tokens in those calls.
    """

    level: int
    summaries: int
    llm_calls: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class CostEstimate(_Report):
    """The estimated cost of `add` or `update`.

    Attributes:
        documents: Number of documents to index, excluding unchanged ones.
        chunks: Number of chunks in those documents.
        summaries: Number of summaries for those documents.
        llm_calls: Number of summaries that need an LLM call, excluding cached and repeated ones.
            The number is exact unless the model answers different prompts with the same text, which
            saves calls at higher levels. The default extractive summarizer creates these summaries
            without LLM calls.
        prompt_tokens: Upper bound, measured with the index's token counter; exact at level 1.
        completion_tokens: Upper bound: `summary_tokens` per call.
        levels: The same counts per level, starting at level 1.
        community_reports: The counts of community reports, which `llm_calls` and the tokens
            include; its level is that of the communities. None if they were not asked for.
        skipped: Ids of unchanged documents, which are not indexed.
        chunk_calls: The counts of the enricher at level 0, with the chunks as `summaries`.
            `llm_calls` and the tokens include them, and then no summaries that are made without an
            LLM. None without an enricher.
    """

    documents: int
    chunks: int
    summaries: int
    llm_calls: int
    prompt_tokens: int
    completion_tokens: int
    levels: tuple[LevelEstimate, ...] = ()
    community_reports: LevelEstimate | None = None
    skipped: tuple[str, ...] = ()
    chunk_calls: LevelEstimate | None = None

    def __add__(self, other: CostEstimate) -> CostEstimate:
        """Return the cost of a run, followed by that of community reports."""
        return replace(
            self,
            llm_calls=self.llm_calls + other.llm_calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            community_reports=other.community_reports,
        )


@dataclass(frozen=True, slots=True)
class ReembedEstimate(_Report):
    """What `reembed` would embed, without results of an interrupted run.

    Attributes:
        nodes: Number of chunks and summaries that get new vectors.
        windows: Number of texts that the embedder would embed.
        tokens: Tokens in these texts, by the index's token counter.
    """

    nodes: int = 0
    windows: int = 0
    tokens: int = 0

    def __add__(self, other: ReembedEstimate) -> ReembedEstimate:
        """Return the sum of two estimates."""
        return ReembedEstimate(
            self.nodes + other.nodes, self.windows + other.windows, self.tokens + other.tokens
        )


@dataclass(frozen=True, slots=True)
class IndexReport(_Report):
    """The result of `add`, `update`, `resume`, `reindex`, `reembed` or `enrich`.

    Attributes:
        documents: Number of documents indexed.
        skipped: Ids of documents that were not indexed: unchanged documents, changed documents
            skipped because of `on_duplicate="skip"`, and copies skipped because of
            `on_copy="skip"`.
        queued: Ids of the documents that were only added to the queue, with `wait=False`.
        failed: Error messages of the documents that failed, by id.
        empty: Ids of indexed documents without text; they have no chunks.
        chunks, summaries: Number of nodes written; `reindex` only extracts the chunks again, and
            `enrich` only enriches them.
        entities, edges: Number of distinct graph entities and edges in the indexed documents.
        embedded: Number of nodes that needed a new vector because the cache had none.
        llm_calls: LLM calls, including retries; 0 with the extractive default.
        saved_calls: Estimated calls that were not needed because a regenerated summary came out
            unchanged: `llm_calls - retries + saved_calls` equals the estimate. 0 if a document
            failed.
        retries: Calls that repeated a failed call.
        cut_summaries: Summaries truncated because they exceeded `summary_tokens`.
        prompt_tokens, completion_tokens: Tokens in the LLM calls, by the index's token counter.
        seconds: Seconds by stage, summed over threads, and `total`, the wall time.
    """

    documents: int = 0
    skipped: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    empty: tuple[str, ...] = ()
    chunks: int = 0
    summaries: int = 0
    entities: int = 0
    edges: int = 0
    embedded: int = 0
    llm_calls: int = 0
    saved_calls: int = 0
    retries: int = 0
    cut_summaries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    queued: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """Total number of prompt and completion tokens."""
        return self.prompt_tokens + self.completion_tokens

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return asdict(self) | {"tokens": self.tokens}


@dataclass(frozen=True, slots=True)
class DeleteReport(_Report):
    """The result of `delete`. Documents that were queued but never indexed have no nodes."""

    documents: int = 0
    chunks: int = 0
    summaries: int = 0


@dataclass(frozen=True, slots=True)
class DocumentStatus(HtmlFields):
    """The indexing state of a document.

    Attributes:
        id: Document id.
        status: `done` if the newest version is indexed. Otherwise `pending`, `failed`, or
            `processing`, which remains if the process dies.
        reason: Error message of a failed document.
        indexed: Whether any version of the document is searchable.
        worker: The process and the host of the worker that indexes the document, if one does.
        since: When that worker claimed the document, by the clock of the server, in ISO 8601.
    """

    id: str
    status: Literal["pending", "processing", "done", "failed"]
    reason: str | None = None
    indexed: bool = True
    worker: str | None = None
    since: str | None = None


@dataclass(frozen=True, slots=True)
class CompactReport(HtmlFields):
    """The result of `compact`: the file size before and after, and the dropped cached results."""

    bytes_before: int
    bytes_after: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Stats(_Report):
    """The size of an index in documents, nodes, graph, vectors and bytes, and its settings.

    Attributes:
        documents: Number of indexed documents.
        chunks: Number of chunks.
        summaries: Number of summaries.
        levels: Number of levels of the highest tree, with the chunks.
        entities: Number of entities, with the subjects of documents that no text mentions.
        edges: Number of edges of the entity graph.
        mentions: Number of mentions of entities in chunks.
        windows: Number of windows, each with a vector.
        dimension: Length of a vector; 0 in an empty index.
        bytes: Size of the file or of the tables in bytes, without the derived search index; 0 in
            memory.
        subjects: Number of documents by the source of their subject: `title`, `metadata`,
            `heading`, `file` or `definition`, and `none` if the subject is unknown.
        sections: Number of sections whose heading counts.
        trusted_sources: The sources of which the index uses all names, because enough documents
            support them.
        settings: The settings and models of the index by name.
        languages: Number of documents by language (ISO 639-1).
    """

    documents: int
    chunks: int
    summaries: int
    levels: int
    entities: int
    edges: int
    mentions: int
    windows: int
    dimension: int
    bytes: int
    subjects: Mapping[str, int] = field(default_factory=dict)
    sections: int = 0
    trusted_sources: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    languages: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of `verify`: counts of checked items, and the problems found."""

    checked: Mapping[str, int]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the check found no problem."""
        return not self.problems

    def _repr_html_(self) -> str:
        count = len(self.problems)
        found = f"{count:,} problem{'' if count == 1 else 's'}" if count else "no problems"
        rows = {"checked": self.checked} | ({} if self.ok else {"problems": self.problems})
        return block(heading(f"VerifyReport: {found}"), values_table(rows))


@dataclass(frozen=True, slots=True)
class VectorReport(_Report):
    """The result of updating a vector index.

    Attributes:
        documents: Number of documents in the vector index.
        written: Number of documents whose vectors were written.
        removed: Number of documents that were removed.
        vectors: Number of vectors that were written.
        seconds: Wall time.
    """

    documents: int = 0
    written: int = 0
    removed: int = 0
    vectors: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class GraphReport(_Report):
    """The result of updating the graph in a graph store.

    All counts are by label, such as `Entity` or `CO_OCCURS`.

    Attributes:
        added: Number of new nodes and relations.
        updated: Number of those with changed properties.
        removed: Number of those that the index no longer contains.
        unchanged: Number of all others.
        rewritten: Number of nodes and relations that did not change but were written again,
            because graph stores can delete only a node with all its relations, or because an
            earlier update was interrupted.
        seconds: Wall time.
    """

    added: Mapping[str, int] = field(default_factory=dict)
    updated: Mapping[str, int] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    unchanged: Mapping[str, int] = field(default_factory=dict)
    rewritten: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Freshness(HtmlFields):
    """How old an answer, or the current state of a reader, is.

    Attributes:
        generation: Name of the generation that answered; empty before the first question.
        is_newest: Whether the answer contains all changes that were committed before the question.
        max_age: The answer contains all changes that were committed more than this many seconds
            ago. It is an upper bound: the seconds since this reader last knew that it was current.
        is_preparing: Whether a newer generation is being prepared in the background.
        left_out: Number of documents that were changed or deleted since, and are left out.
        waited: Seconds that the question waited for this generation; 0 for the first one.
        problem: Why a newer generation could not be prepared; empty if there was no problem.
        pending: Number of documents that are stored but not indexed, failed ones included: no
            answer contains them, or at most their old versions. In a trace, as of the last count.
    """

    generation: str
    is_newest: bool
    max_age: float = 0.0
    is_preparing: bool = False
    left_out: int = 0
    waited: float = 0.0
    problem: str = ""
    pending: int = 0

    def describe(self) -> str:
        """Return the freshness as one line of text."""
        older = f"an older state: changes of the last {self.max_age:.1f} s may be missing"
        parts = ["the newest state" if self.is_newest else older]
        if self.left_out:
            parts.append(f"{self.left_out} changed document(s) left out")
        if self.is_preparing:
            parts.append("a newer state is being prepared")
        if self.waited:
            parts.append(f"waited {self.waited:.2f} s until it was prepared")
        if self.problem:
            parts.append(f"a newer state could not be prepared ({self.problem})")
        if self.pending:
            parts.append(f"{self.pending} document(s) not indexed yet")
        return "; ".join(parts)
