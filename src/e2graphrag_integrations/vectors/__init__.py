"""Vector indexes outside of the snapshot: pgvector and Qdrant."""
