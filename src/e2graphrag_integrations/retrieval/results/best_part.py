"""Finding the part of a passage that answers the question, if the passage is too long."""

from __future__ import annotations

from itertools import pairwise
from math import fsum

from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.retrieval.names.name_sentences import NameSentences
from e2graphrag_integrations.retrieval.ranking.question_terms import QuestionTerms
from e2graphrag_integrations.retrieval.strategy import Query
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.text.sentences import sentence_starts
from e2graphrag_integrations.text.tokens import count_tokens


def best_start(text: str, tokens: int, query: Query, bm25: BM25Index, counter: TokenCounter) -> int:
    """Return where the sentences begin that contain most of the question's words, by their IDF.

    Of sentences that contain equally much, the last start is returned: what follows the words of a
    question answers it more often than what is before them.

    Args:
        text: The passage.
        tokens: Number of tokens that the sentences may have.
        query: The question.
        bm25: The words of the index.
        counter: Counts the tokens.
    """
    starts = sentence_starts(text)
    sentences = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    words = NameSentences(QuestionTerms(query, bm25, idf_power=0.0), ()).weights(sentences)
    sizes = [count_tokens(counter, sentence) for sentence in sentences]
    best, found = 0.0, 0
    for first, start in enumerate(starts):
        covered = dict(words[first])
        room = tokens - sizes[first]
        for size, more in zip(sizes[first + 1 :], words[first + 1 :], strict=True):
            room -= size
            if room < 0:
                break
            covered |= more
        weight = fsum(covered.values())
        if weight and weight >= best:
            best, found = weight, start
    return found
