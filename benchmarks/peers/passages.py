"""Choose the passages and the questions of hotpotqa."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from questions import WARM_UP

from quality_bench.corpora import corpora


def passage_job(
    data: Path, questions: int, passages: int
) -> tuple[dict[str, Any], list[frozenset[str]]]:
    """Return the job of the passages, and the gold ids of each question.

    The questions are the first ones of the report split. The passages are the gold ones and those
    closest to them in the order of the set. The set lists the ten passages that HotpotQA gives
    with a question together, so most of the others are similar to gold passages.
    """
    [corpus] = corpora(data, ["hotpotqa-text"])
    asked = corpus.questions("report")[:questions]
    documents = corpus.documents()
    gold = frozenset[str]().union(*(one.gold for one in asked))
    if len(gold) > passages:
        raise SystemExit(f"{len(asked)} questions need {len(gold)} passages, more than {passages}")
    positions = [place for place, one in enumerate(documents) if one.id in gold]
    closest = sorted(
        range(len(documents)), key=lambda place: min(abs(place - one) for one in positions)
    )
    texts = {documents[place].id: documents[place].text for place in sorted(closest[:passages])}
    job = {"texts": texts, "questions": [WARM_UP, *(one.text for one in asked)]}
    return job, [one.gold for one in asked]
