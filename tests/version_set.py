"""Forty facts in three versions each, whose older versions resemble the questions most."""

from __future__ import annotations

from dataclasses import dataclass

from e2graphrag_integrations import RetrievalResult, SourceDocument, Validity

_PLACES = "Halsen Morvik Oslo Rome Dublin Lima Quito Turin Bergen Ghent".split()
_THINGS = {
    "ferry": ("runs the ferry", "The ferry", "service on the fjord"),
    "library": ("directs the library", "The library", "reading rooms on the square"),
    "market": ("manages the market", "The market", "stalls behind the church"),
    "archive": ("heads the archive", "The archive", "papers of the town"),
}
_NAMES = "Anna Bert Cleo Dina Emil Fred Gina Hugo Ines Jens Kira Lars".split()
_YEARS = ("2019", "2021-06", "2023-02-15")
DURING = ("2020-03-01", "2022", "2024-01")
"""A date at which each of the three versions held."""


@dataclass(frozen=True)
class Fact:
    """A question with the ids of the documents that answer it, the oldest first."""

    question: str
    versions: tuple[str, ...]


def make_facts() -> tuple[list[Fact], list[SourceDocument]]:
    """Return 40 facts and their 120 documents."""
    facts, documents = [], []
    for number, (place, thing) in enumerate((p, t) for p in _PLACES for t in _THINGS):
        verb, subject, other = _THINGS[thing]
        names = [_NAMES[(number + step) % len(_NAMES)] for step in (0, 5, 7)]
        texts = (  # the older, the nearer to the question
            f"{names[0]} Holm {verb} at {place}. Who {verb} at {place} also answers for the staff.",
            f"{subject} at {place} has a new head: {names[1]} Berg {verb}.",
            f"{names[2]} Dahl took over in {place}; the {other} are now in her hands.",
        )
        ids = tuple(f"{thing}-{place.lower()}-{version}" for version in range(3))
        facts.append(Fact(f"Who {verb} at {place}?", ids))
        for version, text in enumerate(texts):
            metadata = {"date": _YEARS[version], "page_of": f"{thing}/{place}"}
            if version:
                metadata["supersedes"] = ids[version - 1]
            documents.append(SourceDocument(ids[version], text, metadata=metadata))
    return facts, documents


def count_first(rag, facts: list[Fact], links: Validity, **options) -> tuple[int, int, int]:
    """Return how many questions have the right version first.

    Args:
        rag: The index.
        facts: The questions.
        links: The keys by which versions are found.
        **options: Arguments of `retrieve`.

    Returns:
        The number with `as_of`, without a date, and without any preference, of all questions.
    """

    def first(result: RetrievalResult) -> str:
        return result.nodes[0].document_id

    dated = newest = plain = 0
    for number, fact in enumerate(facts):
        right = number % len(fact.versions)
        at = Validity(DURING[right], supersedes=links.supersedes, source=links.source)
        found = rag.retrieve(fact.question, as_of=at, **options)
        dated += first(found) == fact.versions[right]
        newest += first(rag.retrieve(fact.question, as_of=links, **options)) == fact.versions[-1]
        nothing = Validity(supersedes=None)
        plain += first(rag.retrieve(fact.question, as_of=nothing, **options)) == fact.versions[-1]
    return dated, newest, plain
