"""Indexing of LlamaIndex documents and nodes."""
