"""What the write path says about itself: cost before, report after, progress between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, asdict, dataclass, field, fields
from typing import Any, Literal

Stage = Literal["chunk", "extract", "embed", "summarize", "write"]


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of long work: `done` of `total` items of a stage; `total` may still grow.

    `seconds` is how long the stage has been at work, waiting for others included.
    """

    stage: Stage
    done: int
    total: int
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Return the items a second, 0 while nobody can tell."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Return how long what is known of will take at this rate, None while nobody can tell."""
        return (self.total - self.done) / self.rate if self.rate else None


ProgressListener = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class LevelEstimate:
    """The summaries of one level: how many, how many of them must be made, and their tokens."""

    level: int
    summaries: int
    llm_calls: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What `add` would cost, before it is paid.

    Attributes:
        documents: Documents to index; unchanged ones are not counted.
        chunks: Their chunks.
        summaries: Their summaries.
        llm_calls: Summaries an LLM must make; cached and equal ones are not counted. Exact unless
            the model gives equal answers to different prompts, which saves calls above them. The
            extractive default makes the same summaries without any call.
        prompt_tokens: Upper bound, by the index's token counter; exact at level 1.
        completion_tokens: Upper bound: `summary_tokens` a call.
        levels: The same by level, from 1.
    """

    documents: int
    chunks: int
    summaries: int
    llm_calls: int
    prompt_tokens: int
    completion_tokens: int
    levels: tuple[LevelEstimate, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What `add` did.

    Attributes:
        documents: Documents indexed.
        skipped: Ids of documents that were there already: unchanged, or, if that was asked for,
            with another content, or as a copy under another id.
        failed: Ids of documents that could not be indexed, with the reason; the others are there.
        empty: Ids of documents without any text; they are kept, with no chunk.
        chunks, summaries: Nodes written.
        entities, edges: Distinct ones that the new documents contribute.
        embedded: Nodes of which a vector was made, not found in the cache.
        llm_calls: Calls made, repeated ones included; 0 with the extractive default.
        saved_calls: Calls that `estimate` counted and that were not made, for a summary made anew
            came out as it was: `llm_calls - retries + saved_calls` is the estimate. 0 where a
            document failed.
        retries: How many of them were repeats.
        cut_summaries: Summaries that came back longer than allowed and were cut.
        prompt_tokens, completion_tokens: Of those calls, by the index's token counter.
        seconds: Time by stage, summed over threads, and `total`, the wall time.
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

    def __add__(self, other: IndexReport) -> IndexReport:
        """Return the report of both pieces of work; `seconds` add up, `total` too."""
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in _summable(self)}
        stages = dict.fromkeys([*self.seconds, *other.seconds])
        seconds = {s: self.seconds.get(s, 0.0) + other.seconds.get(s, 0.0) for s in stages}
        return IndexReport(**sums, failed={**self.failed, **other.failed}, seconds=seconds)

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return asdict(self) | {"tokens": self.tokens}


def _summable(report: IndexReport) -> list[Field[Any]]:
    return [field for field in fields(report) if field.name not in {"seconds", "failed"}]


@dataclass(frozen=True, slots=True)
class DeleteReport:
    """What `delete` removed; documents that only waited in the queue have no nodes."""

    documents: int = 0
    chunks: int = 0
    summaries: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class DocumentStatus:
    """How far a document is.

    Attributes:
        id: Of the document.
        status: `done`, or, while its newest version is not indexed, `pending`, `processing` (or a
            process died over it), or `failed`.
        reason: Why it failed.
        indexed: Whether some version of it answers questions.
    """

    id: str
    status: Literal["pending", "processing", "done", "failed"]
    reason: str | None = None
    indexed: bool = True


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What `compact` did: bytes of the file before and after, cached results that went."""

    bytes_before: int
    bytes_after: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Stats:
    """What an index holds."""

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
    settings: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `verify` found; no problems means that the file is sound."""

    checked: Mapping[str, int]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems
