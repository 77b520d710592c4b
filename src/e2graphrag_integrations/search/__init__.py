"""Dense and BM25 search, rank fusion, and reranking."""
