"""Enrichment: a language model adds keywords, questions and a sentence of context to each chunk.

It is off unless an index is opened with `WriteOptions(enricher=Enricher(llm))`. The words are a
field of the chunk in BM25, and each sentence has a vector of its own; texts, offsets and all other
vectors remain as they are, so it can be removed without building the index again.
"""

from e2graphrag_integrations.enrichment.enricher import Enricher
from e2graphrag_integrations.enrichment.stage import EnrichmentError

__all__ = ["Enricher", "EnrichmentError"]
