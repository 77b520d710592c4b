"""Options of an index, declared once for the core, LlamaIndex, LangChain and the command line.

None means the value that the index was built with, or else the default.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from e2graphrag_integrations._utils.validation import (
    check_bool,
    check_int,
    check_name,
    check_seconds,
    instance_or_default,
    short_repr,
)
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.languages.language import AUTO
from e2graphrag_integrations.settings import SETTING_NAMES, Cut
from e2graphrag_integrations.summarizers.retry import RetryPolicy

if TYPE_CHECKING:
    from e2graphrag_integrations.entities.extractor_choice import Extractors
    from e2graphrag_integrations.protocols import TokenCounter
    from e2graphrag_integrations.summarizers.prompts import Prompts


TREE_PER_VALUES = ("source", "document", "corpus")
"""The named values of `TreePer`."""

TreePer = Literal["source", "document", "corpus"] | Callable[[Any], str]
"""A named rule for sharing summary trees, or a function that returns a document's source."""

MayShareChunk = Callable[[Mapping[str, Any], Mapping[str, Any]], bool]
"""Returns whether adjacent segments with the given metadata are split together."""


def check_call_limit(limit: int | None) -> int | None:
    """Check `max_llm_calls`, and return it.

    Raises:
        InvalidInputError: If it is neither None nor a whole number of at least 0.
    """
    return None if limit is None else check_int("max_llm_calls", limit, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """How documents become trees. What is recorded in the index is fixed with the first document.

    Attributes:
        chunk_size: Maximum tokens in a chunk; 1200 by default.
        chunk_overlap: Maximum tokens that neighboring chunks share; 100 by default, but at
            most half of `chunk_size`, and 0 for `"content"` chunks, which cannot overlap.
        group_size: Number of nodes per summary; 5 by default. It is an average with `"content"`
            grouping.
        summary_tokens: Maximum tokens in a summary; 300 by default. Longer summaries are truncated
            at the end of a sentence.
        chunking: `"fixed"` (default) fills each chunk up to `chunk_size`, as in the paper.
            `"content"` derives chunk boundaries from hashes of the text, so that editing a long
            document regenerates few summaries.
        grouping: `"fixed"` (default) or `"content"`: how nodes are grouped under summaries.
        scope_keys: Metadata keys, such as `["tenant"]`, on which all parts of a tree must agree; a
            document whose parts differ is rejected. No summary then spans two scopes (`scoped`).
            The default is no key.
        splitter: Returns the chunk spans of a text; in LangChain, a text splitter, or a function
            from a text to its chunks. None splits at sentence boundaries. It is not recorded: pass
            it whenever you open the index to write.
        split_segments: Whether to split each segment of a document separately, such as a page.
            Segments that differ only in their `headings` are split together. A function of the
            metadata of two adjacent segments returns whether they are split together. Not recorded.
        tree_per: For LlamaIndex and LangChain: the documents that share a summary tree. They are
            the pages, rows and chunks of one source whose other metadata are equal (`"source"`,
            the default), each document alone (`"document"`), all documents (`"corpus"`), or those
            for which a function returns the same name.
    """

    chunk_size: int | None = None
    chunk_overlap: int | None = None
    group_size: int | None = None
    summary_tokens: int | None = None
    chunking: Cut | None = None
    grouping: Cut | None = None
    scope_keys: Sequence[str] | None = None
    splitter: Any = None
    split_segments: bool | MayShareChunk = False
    tree_per: TreePer | None = None

    def __post_init__(self) -> None:
        """Check the options that an index does not record; it checks the others itself."""
        if not callable(self.split_segments):
            check_bool("split_segments", self.split_segments)

    def recorded(self) -> dict[str, Any]:
        """Return the settings that an index records, by name."""
        return {name: getattr(self, name) for name in SETTING_NAMES}

    def with_chunk_size(self, chunk_size: int | None) -> IndexSettings:
        """Return the settings with a size that was passed beside them.

        Raises:
            InvalidInputError: If they have another size.
        """
        if chunk_size is None:
            return self
        if self.chunk_size not in (None, chunk_size):
            raise InvalidInputError(
                f"chunk_size={chunk_size!r} contradicts settings with "
                f"chunk_size={self.chunk_size!r}: pass one of them"
            )
        return replace(self, chunk_size=chunk_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The components beside the embedder and the language model.

    Attributes:
        extractor: An `EntityExtractor`, or the name or path of a spaCy pipeline, for all documents;
            or a mapping from languages to them, such as `{"de": "de_core_news_sm"}`; or
            `EntityRules`, which complete the default extractors. None means the extractors recorded
            in the index. Other languages have default extractors: the bundled pipeline for English,
            that of the extra `zh` for Chinese, and rules for the others.
        language: Language of the documents that do not say theirs. `"auto"` detects it.
        token_counter: Counts tokens for sizes and budgets. None means a rule-based estimate.
        prompts: Prompts for a summarizer function, or for the `llm` of LlamaIndex and LangChain.
        llm_id: Name of the model behind a summarizer function, or behind an `llm` of LangChain that
            is not a recognizable model. Later runs with the same name reuse its cached summaries.
        embed_max_tokens: For embeddings of LlamaIndex and LangChain that do not report it: maximum
            tokens per text. Longer texts are embedded in windows, never truncated.

    Raises:
        InvalidInputError: If `llm_id` or `embed_max_tokens` is invalid.
    """

    extractor: Extractors | Any = None
    language: str = AUTO
    token_counter: TokenCounter | None = None
    prompts: Prompts | None = None
    llm_id: str | None = None
    embed_max_tokens: int | None = None

    def __post_init__(self) -> None:
        """Check the id and the number of tokens."""
        if self.llm_id is not None:
            check_name("llm_id", self.llm_id)
        if self.embed_max_tokens is not None:
            check_int("embed_max_tokens", self.embed_max_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How documents are written, and what a write may cost.

    Attributes:
        concurrency: Maximum number of simultaneous calls to the language model.
        max_llm_calls: Maximum number of LLM calls of one write, without retries. A write that needs
            more raises LLMCallLimitError before the first call. None means no limit. `work` needs
            None: a worker does not know what the others will do.
        retry: Retry policy for transient errors from the language model; None means
            `RetryPolicy()`.
        lock_timeout: Seconds to wait while another process is writing.
        engine: Where documents are extracted, embedded and summarized: `"local"` in this process,
            `"ray"` or a `RayEngine` (extra `ray`) on the workers of a Ray cluster.
        show_progress: Whether writes draw a progress bar.
        enricher: An `Enricher`, whose language model adds keywords, questions and a sentence of
            context to each chunk. None adds nothing.

    Raises:
        InvalidInputError: If a value is invalid.
    """

    concurrency: int = 4
    max_llm_calls: int | None = None
    retry: RetryPolicy | None = None
    lock_timeout: float = 30.0
    engine: Any = "local"
    show_progress: bool = False
    enricher: Any = None

    def __post_init__(self) -> None:
        """Check the values."""
        if self.enricher is not None and not hasattr(self.enricher, "stage"):
            raise InvalidInputError(
                f"enricher={short_repr(self.enricher)} is no Enricher: pass Enricher(llm) of "
                "e2graphrag_integrations.enrichment"
            )
        object.__setattr__(self, "concurrency", check_int("concurrency", self.concurrency))
        check_call_limit(self.max_llm_calls)
        instance_or_default("retry", self.retry, RetryPolicy)
        seconds = check_seconds("lock_timeout", self.lock_timeout)
        object.__setattr__(self, "lock_timeout", seconds)
        check_bool("show_progress", self.show_progress)


@dataclass(frozen=True, slots=True)
class FreshnessPolicy:
    """How old an answer may be; see `E2GraphRAG.open`.

    Attributes:
        max_staleness: An answer contains all changes that were committed more than this many
            seconds before the question. 0 waits for the newest generation; None never waits.
        read_your_writes: Whether an answer contains all changes that were made through the same
            object before the question.
        process_from: Number of chunks and summaries from which a process of its own, with a low
            priority, prepares the next state of an index file. It starts with a change, and ends
            after a minute without one. None prepares every state in a thread.

    Raises:
        InvalidInputError: If a value is invalid.
    """

    max_staleness: float | None = None
    read_your_writes: bool = True
    process_from: int | None = 50_000

    def __post_init__(self) -> None:
        """Check the values."""
        if self.max_staleness is not None:
            checked = check_seconds("max_staleness", self.max_staleness)
            object.__setattr__(self, "max_staleness", checked)
        check_bool("read_your_writes", self.read_your_writes)
        if self.process_from is not None:
            check_int("process_from", self.process_from, 0)

    def required_time(self, now: float, last_write: float) -> float:
        """Return the time up to which an answer must contain all changes.

        Args:
            now: The time of the question.
            last_write: The time of the last change through the same object.
        """
        required = -math.inf if self.max_staleness is None else now - self.max_staleness
        return max(required, last_write) if self.read_your_writes else required


class NoOptions(TypedDict):
    """No options: any other keyword goes to `**unknown` and is rejected with a suggestion."""


_OBJECTS: Mapping[str, type] = {
    "settings": IndexSettings,
    "models": Models,
    "writes": WriteOptions,
    "freshness": FreshnessPolicy,
}
"""The parameters of every `open` that take an option object."""

_HOMES = {one.name: name for name, kind in _OBJECTS.items() for one in fields(kind)}
"""The parameter whose object has a field."""


@dataclass(frozen=True, slots=True)
class Options:
    """The option objects of an `open`, checked, none of them None.

    Attributes:
        settings, models, writes, freshness: See `E2GraphRAG.open`.
    """

    settings: IndexSettings
    models: Models
    writes: WriteOptions
    freshness: FreshnessPolicy

    @classmethod
    def of(
        cls,
        settings: IndexSettings | None,
        models: Models | None,
        writes: WriteOptions | None,
        freshness: FreshnessPolicy | None,
        chunk_size: int | None = None,
    ) -> Options:
        """Return the objects that were passed to an `open`, or their defaults.

        Raises:
            InvalidInputError: If one is an object of another kind, or sizes contradict each other.
        """
        return cls(
            instance_or_default("settings", settings, IndexSettings).with_chunk_size(chunk_size),
            instance_or_default("models", models, Models),
            instance_or_default("writes", writes, WriteOptions),
            instance_or_default("freshness", freshness, FreshnessPolicy),
        )


PASSED_IN: Mapping[str, str] = {
    name: f"{home}={_OBJECTS[home].__name__}({name}=...)"
    for name, home in _HOMES.items()
    if name != "chunk_size"
}
"""How to pass each field of an option object that an `open` does not take by name."""


def ungrouped(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield arguments of an `open`, with the changed fields of its option objects instead."""
    for name, value in arguments.items():
        kind = _OBJECTS.get(name)
        if kind is None:
            yield name, value
        elif value is not None:
            default = kind()
            for one in fields(kind):
                own = getattr(value, one.name)
                if own != getattr(default, one.name):
                    yield one.name, own


def grouped(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of an `open`, with fields of its option objects gathered in the objects.

    Arguments that contain objects already are returned unchanged.
    """
    if not arguments.keys().isdisjoint(_OBJECTS):
        return dict(arguments)
    own = {name: value for name, value in arguments.items() if name not in _HOMES}
    for home, kind in _OBJECTS.items():
        values = {name: value for name, value in arguments.items() if _HOMES.get(name) == home}
        if values:
            own[home] = kind(**values)
    return own
