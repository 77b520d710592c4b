"""`Draft`: a retrieval on its way from a question to a result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from e2graphrag_integrations.components import Components
from e2graphrag_integrations.retrieval.hydrate import NodeReader
from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode
from e2graphrag_integrations.retrieval.results.duplicates import Duplicates
from e2graphrag_integrations.retrieval.strategy import Candidate, Query, Strategy
from e2graphrag_integrations.retrieval.trace import Trace
from e2graphrag_integrations.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from e2graphrag_integrations.retrieval.entities.entity_paths import EntityPath


@dataclass(frozen=True)
class Draft:
    """What the stages of a retrieval have found so far.

    Attributes:
        query: The question, completed by the stages.
        strategy: Ranks the nodes.
        components: The models of the index.
        reader: Reads texts, each at most once.
        duplicates: Finds the texts that the result would show twice.
        trace: The steps so far.
        candidates: The ranked nodes or windows, best first.
        spare: Complete nodes that follow the candidates, if some of these turn out to be repeats.
        nodes: The nodes of the result.
        paths: The paths between the entities of the question; None if they are not asked for.
    """

    query: Query
    strategy: Strategy
    components: Components
    reader: NodeReader
    duplicates: Duplicates
    trace: Trace
    candidates: Sequence[Candidate] = ()
    spare: Sequence[Candidate] = ()
    nodes: Sequence[RetrievedNode] = ()
    paths: tuple[EntityPath, ...] | None = None

    @property
    def snapshot(self) -> Snapshot:
        """The index in memory."""
        return self.reader.snapshot

    @property
    def timings(self) -> dict[str, float]:
        """Seconds per step."""
        return self.reader.timings

    @property
    def has_windows(self) -> bool:
        """Whether the candidates are windows of nodes, not complete nodes."""
        return any(one.is_window for one in self.candidates)

    def result(self, question: str) -> RetrievalResult:
        """Return the result, which names the question as asked."""
        trace = replace(
            self.trace,
            question=question,
            timings=self.timings,
            question_languages=self.query.languages,
            languages=dict(Counter(node.language for node in self.nodes).most_common()),
        )
        return RetrievalResult(question, tuple(self.nodes), trace, self.paths)


Stage = Callable[[Draft], Draft]
"""One step of a retrieval. It returns the draft unchanged if it has nothing to do."""
