"""Dense and lexical search, fusion and reranking."""
