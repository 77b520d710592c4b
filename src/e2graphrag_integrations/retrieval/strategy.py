"""The interface of a strategy: the query that it receives and the candidates that it returns."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.validation import (
    check_bool,
    check_fraction,
    check_int,
    short_repr,
)
from e2graphrag_integrations.embedders.calibration import Calibration, clipped_cosine
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import FloatArray, Reranker
from e2graphrag_integrations.retrieval.question_words import search_terms
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.trace import Trace
from e2graphrag_integrations.search.bm25 import Weights
from e2graphrag_integrations.search.fusion import Floats
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.codes import QuestionCode, question_codes
from e2graphrag_integrations.types import Mention, Span

if TYPE_CHECKING:
    from e2graphrag_integrations.retrieval.history.turns import Carried, Turn
    from e2graphrag_integrations.retrieval.ranking.boosts import Boosts

T = TypeVar("T")

Mode = Literal["auto", "local", "global"]
MODES: tuple[Mode, ...] = ("auto", "local", "global")

Expand = Literal["none", "children", "leaves"]
EXPANSIONS: tuple[Expand, ...] = ("none", "children", "leaves")

DEFAULT_K = 10
"""Number of nodes in a result if neither `k` nor a token budget says otherwise."""

MAX_QUESTION = 32_000
"""Maximum length of a question, and of all texts to embed for it, in characters."""

NodeFilter = Callable[[Snapshot], NDArray[np.bool_]]
"""Returns the mask of a snapshot's nodes that match a filter, shape (nodes,)."""


@dataclass(frozen=True, eq=False)
class Query:
    """A question with its options.

    The caller sets the fields before `vector`, and may set `vector`. Before the strategy ranks, the
    pipeline sets `mentions`, `allowed`, `calibration` and `texts`, `carried` if there is a history,
    and also `vector` if it is missing and needed.

    Attributes:
        question: The question in words, at most 32,000 characters.
        k: Number of nodes to rank. Under a token budget, the pipeline raises it to at least 50, and
            the budget and `max_nodes` make the final cut.
        mode: `auto`, or the side to use: `local` (entities) or `global` (no entities).
        where: Metadata filter.
        token_budget: Maximum number of tokens in the result's context.
        expand: Whether to replace each summary with its `children` or `leaves`; `none` keeps it.
        fill: Whether to fill the result up to `k` nodes with the nearest nodes by cosine.
        boosts: Preferences that the pipeline applies to the candidates of the strategy.
        embed_texts: Texts to embed instead of the question; the mean of their embeddings is used as
            the query vector (HyDE, arXiv 2212.10496, section 3.2). At most 32,000 characters in
            total.
        history: The earlier turns of the conversation, oldest first.
        paths: Whether to find the paths between the entities of the question.
        min_relevance: The least calibrated relevance of a node in the result, from 0 to 1.
        max_nodes: Maximum number of nodes in a token budget; None lets the budget decide alone.
        options: Options of further stages of the pipeline, each of a class of its own.
        vector: Unit vector of the question, shape (dimension,). None until the pipeline embeds the
            question. If anything is carried over, it includes the topic of the earlier turns.
        carried: Names and words that are carried over from `history`, and their weights; None
            without a history.
        translation: The question with the user's aliases in other scripts replaced by the names
            that they mean; empty if there are none.
        mentions: Names and nouns in the question, and names carried over, without duplicates.
        allowed: Mask of the nodes that match `where`, shape (nodes,); None without a filter.
        calibration: Maps the cosine of a node to its relevance.
        languages: The languages whose extractors read the question.
        texts: Reads the texts of nodes, given their rows; None if a strategy must do without.

    Raises:
        InvalidInputError: If an argument is out of range.
    """

    question: str
    k: int = DEFAULT_K
    mode: Mode = "auto"
    where: NodeFilter | None = None
    token_budget: int | None = None
    expand: Expand = "none"
    fill: bool = False
    boosts: Boosts | None = None
    embed_texts: tuple[str, ...] = ()
    history: tuple[Turn, ...] = ()
    paths: bool = False
    min_relevance: float | None = None
    max_nodes: int | None = None
    options: tuple[object, ...] = ()
    vector: FloatArray | None = None
    carried: Carried | None = None
    translation: str = ""
    mentions: tuple[Mention, ...] = ()
    allowed: NDArray[np.bool_] | None = None
    calibration: Calibration = clipped_cosine
    languages: tuple[str, ...] = ()
    texts: Callable[[Sequence[int]], list[str]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.question, str):
            kind = type(self.question).__name__
            raise InvalidInputError(f"question must be a string, not {kind}")
        if not self.question.strip():
            raise InvalidInputError("question is empty")
        texts = (("question", len(self.question)), ("embed_texts", sum(map(len, self.embed_texts))))
        for name, length in texts:
            if length > MAX_QUESTION:
                raise InvalidInputError(
                    f"{name} has {length:,} characters, but at most {MAX_QUESTION:,} are allowed: "
                    "ask about the text in a shorter question, or index it"
                )
        object.__setattr__(self, "k", check_int("k", self.k, most=None))
        if self.token_budget is not None:
            budget = check_int("token_budget", self.token_budget, most=None)
            object.__setattr__(self, "token_budget", budget)
        if self.min_relevance is not None:
            floor = check_fraction("min_relevance", self.min_relevance)
            object.__setattr__(self, "min_relevance", floor)
        check_bool("fill", self.fill)
        check_bool("paths", self.paths)
        options = (("mode", self.mode, MODES), ("expand", self.expand, EXPANSIONS))
        for name, value, choices in options:
            if not isinstance(value, str) or value not in choices:
                raise InvalidInputError(
                    f"{name}={short_repr(value)} must be one of {', '.join(choices)}"
                )

    def option(self, kind: type[T]) -> T | None:
        """Return the option of a class, or None if there is none."""
        return next((one for one in self.options if isinstance(one, kind)), None)

    @property
    def chunk_field(self) -> ChunkField | None:
        """What the chunks contain in addition to their texts, if anything."""
        return next((one for one in self.options if isinstance(one, ChunkField)), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The mentions: surface forms of names, and lemmas of common nouns."""
        return tuple(mention.entity for mention in self.mentions)

    @property
    def search_text(self) -> str:
        """The text to search for: the question, or its translation."""
        return self.translation or self.question

    @lazy
    def terms(self) -> list[str]:
        """The terms to search for, without question words in Chinese."""
        return search_terms(self.search_text)

    @lazy
    def codes(self) -> list[QuestionCode]:
        """The codes in the question."""
        return question_codes(self.search_text)

    @property
    def question_in_context(self) -> str:
        """The question after the turns of the user from which something is carried over."""
        context = () if self.carried is None else self.carried.context
        return "\n".join([*context, self.question])

    @property
    def carried_names(self) -> Mapping[str, float]:
        """The names that are carried over from the history, with their weights in (0, 1]."""
        return {} if self.carried is None else self.carried.names

    @property
    def carried_terms(self) -> Mapping[str, float]:
        """The BM25 terms that are carried over from the history, with their weights in (0, 1]."""
        return {} if self.carried is None else self.carried.terms

    @property
    def packs_windows(self) -> bool:
        """Whether a token budget is filled with windows of nodes instead of complete nodes."""
        return self.token_budget is not None and self.expand == "none"

    @property
    def active_boosts(self) -> Boosts | None:
        """The boosts, if they change something."""
        return None if self.boosts is None or self.boosts.is_neutral else self.boosts

    @property
    def unit_vector(self) -> FloatArray:
        """The question's unit vector, shape (dimension,).

        Raises:
            InvalidInputError: If the pipeline has not embedded the question, because
                `needs_vector` of the strategy returned False.
        """
        if self.vector is None:
            raise InvalidInputError(
                "the query has no vector: needs_vector() of the strategy must return True"
            )
        return self.vector


class ChunkField(ABC):
    """What chunks contain in addition to their texts, where `HybridStrategy` finds them as well.

    It is one of `Query.options`.
    """

    @abstractmethod
    def nearest(
        self, vector: FloatArray, count: int, allowed: NDArray[np.bool_] | None
    ) -> tuple[IntArray, Floats]:
        """Return the rows of the nearest chunks, best first, and their cosines.

        Args:
            vector: Unit vector, shape (dimension,).
            count: Maximum number of chunks.
            allowed: Mask over nodes; None allows all.
        """

    @abstractmethod
    def matching(
        self,
        terms: Sequence[str],
        weights: Weights,
        idf_power: float,
        count: int,
        allowed: NDArray[np.bool_] | None,
    ) -> tuple[IntArray, Floats]:
        """Return the rows of the chunks with the highest BM25 scores, and these scores.

        Args:
            terms: The terms of the question.
            weights: Factors of terms.
            idf_power: Exponent of the extra IDF factor of each term.
            count: Maximum number of chunks.
            allowed: Mask over nodes; None allows all.
        """

    @abstractmethod
    def reasons(self, query: Query, rows: Sequence[int]) -> Mapping[int, tuple[Reason, ...]]:
        """Return why some nodes were found in this field, by row."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A ranked node, or one window of a node.

    Attributes:
        row: Row of the node in the snapshot.
        score: Higher is better.
        found_by: Name of the list that found the node, such as `relevance` or `entities`.
        reasons: Why the node was found, in words.
        best_span: Character range of the node's text that matches best, or None if unknown.
        is_window: Whether the candidate is only `best_span` instead of the complete node. A node
            may then have several candidates.
        relevance: `RetrievedNode.relevance`, if the strategy knows it, such as
            `query.calibration(cosine)`; None lets the pipeline compute it. It does not affect the
            order.
    """

    row: int
    score: float
    found_by: str
    reasons: tuple[str, ...]
    best_span: Span | None = None
    is_window: bool = False
    relevance: float | None = None


class Strategy(Protocol):
    """Ranks the nodes of a snapshot for a query; has settings but no state.

    It may have an attribute `relevance_calibration`, a function that maps the cosine of a node to
    its relevance. Without it, or if it is None, the function of the embedder is used.
    """

    @property
    def name(self) -> str:
        """Name of the strategy in the trace."""

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[Sequence[Candidate], Trace]:
        """Return the candidates, best first, and the trace.

        At most `query.k` complete nodes are returned; the pipeline drops those that `query.allowed`
        excludes. If `query.packs_windows` is true, the
        strategy may return all windows instead, because the token budget limits the result.
        """


@runtime_checkable
class VectorOptionalStrategy(Strategy, Protocol):
    """A strategy that ranks some queries without the question's vector.

    For other strategies, the pipeline always embeds the question.
    """

    def needs_vector(self, query: Query, snapshot: Snapshot) -> bool:
        """Return whether `rank`, which is called afterwards, will read the query's vector."""


@runtime_checkable
class RerankingStrategy(Strategy, Protocol):
    """A strategy whose best candidates are reordered by a reranker.

    `rank` returns up to `max(query.k, rerank_top_n)` candidates. The pipeline reranks them and then
    cuts to `query.k`.
    """

    @property
    def reranker(self) -> Reranker | None:
        """The reranker, or None to keep the strategy's order."""

    @property
    def rerank_top_n(self) -> int:
        """Number of candidates that the reranker reads."""


@runtime_checkable
class DiverseStrategy(Strategy, Protocol):
    """A strategy whose windows the pipeline selects for breadth if `trace.overview` is true."""

    @property
    def diversity(self) -> float:
        """Weight of breadth, in [0, 1]; 0 keeps the strategy's order."""


def check_strategy(strategy: object) -> None:
    """Check that an object is a strategy.

    Raises:
        InvalidInputError: If the object is a class or has no method `rank`.
    """
    if inspect.isclass(strategy) or not callable(getattr(strategy, "rank", None)):
        raise InvalidInputError(
            f"strategy={short_repr(strategy)} has no method rank(): pass an object such as "
            "PaperStrategy()"
        )
