r"""Measure what a context of each size costs and contains, beside LlamaIndex's VectorStoreIndex.

From the repository's root (about three minutes):

    python benchmarks/context_size.py --data ../shared/data \
        --out benchmarks/results/context_size.json

Asks the questions with gold spans of 12 meetings of qmsum's dev half, all in one index, with
all-MiniLM-L6-v2 and without a language model. The recall is the share of the gold text in the
context.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import NodeWithScore
from pydantic import PrivateAttr

from e2graphrag_integrations import ApproximateTokenCounter, SentenceTransformerEmbedder, Span
from e2graphrag_integrations.evaluation.measures import span_recall
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from quality_bench.corpora import Corpus, Question, corpora
from runs import this_run, write_result

MEETINGS = 12
BUDGETS = (1000, 1500, 2000, 3000, 4000)
BASELINE = "VectorStoreIndex"
"""LlamaIndex's index with its defaults: two nodes of up to 1,024 tokens."""


class MiniLM(BaseEmbedding):
    """The embedder of the package for LlamaIndex."""

    _embedder: SentenceTransformerEmbedder = PrivateAttr()

    def __init__(self, embedder: SentenceTransformerEmbedder) -> None:
        super().__init__()
        self._embedder = embedder

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return [vector.tolist() for vector in self._embedder.embed(texts)]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        vector: list[float] = self._embedder.embed_query(query).tolist()
        return vector

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def retrievers(documents: Sequence[Document]) -> dict[str, BaseRetriever]:
    """Return a retriever for each size."""
    embedder = SentenceTransformerEmbedder()
    index = E2GraphRAGIndex.from_documents(documents, embed_model=embedder)
    vectors = VectorStoreIndex.from_documents(documents, embed_model=MiniLM(embedder))
    return {
        BASELINE: vectors.as_retriever(),
        f"{BASELINE}, similarity_top_k=4": vectors.as_retriever(similarity_top_k=4),
        **{f"token_budget={size}": index.as_retriever(token_budget=size) for size in BUDGETS},
        **{f"k={k}": index.as_retriever(similarity_top_k=k) for k in (2, 5, 10)},
        "k=5, token_budget=2000": index.as_retriever(similarity_top_k=5, token_budget=2000),
    }


def measure(retriever: BaseRetriever, questions: Sequence[Question]) -> dict[str, float]:
    """Return the mean recall, characters, tokens and nodes of the contexts of questions."""
    count = ApproximateTokenCounter().count
    rows = []
    for question in questions:
        hits = retriever.retrieve(question.text)
        texts = [hit.node.get_content() for hit in hits]
        [document] = question.gold
        gold = {document: [Span(start, end) for start, end in question.spans]}
        size = sum(map(len, texts)), sum(map(count, texts)), len(hits)
        rows.append((span_recall(_spans(hits), gold), *size))
    recall, characters, tokens, nodes = (mean(column) for column in zip(*rows, strict=True))
    return {"recall": recall, "characters": characters, "tokens": tokens, "nodes": nodes}


def _spans(hits: Sequence[NodeWithScore]) -> dict[str, list[Span]]:
    """Return the spans of the documents in the texts of chunks."""
    spans: dict[str, list[Span]] = {}
    for node in (hit.node for hit in hits if not hit.node.metadata.get("e2_level")):
        parts = node.metadata.get("e2_spans")
        if parts is None:
            parts = [f"{node.start_char_idx}-{node.end_char_idx}"]
        of_node = [Span(*map(int, part.split("-"))) for part in parts]
        spans.setdefault(str(node.ref_doc_id), []).extend(of_node)
    return spans


def chosen(corpus: Corpus) -> tuple[list[Document], list[Question]]:
    """Return the first meetings of the dev half, and their questions with gold spans."""
    meetings = corpus.documents()[0 : 2 * MEETINGS : 2]
    ids = {one.id for one in meetings}
    documents = [Document(id_=one.id, text=one.text) for one in meetings]
    questions = [one for one in corpus.questions("dev") if one.spans and one.gold <= ids]
    return documents, questions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    [corpus] = corpora(options.data, ["qmsum"])
    documents, questions = chosen(corpus)
    sizes: dict[str, Any] = {}
    for name, retriever in retrievers(documents).items():
        sizes[name] = measure(retriever, questions)
        print(name, sizes[name], flush=True)
    write_result({**this_run(), "questions": len(questions), "sizes": sizes}, options.out)


if __name__ == "__main__":
    main()
