"""How old an answer may be, and how old it is.

A *generation* is a state of the index file. Each change of the documents starts a new one.
"""

from __future__ import annotations

from dataclasses import dataclass

from e2graphrag_integrations._utils.display import HtmlFields


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
