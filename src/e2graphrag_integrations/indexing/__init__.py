"""Indexing: from documents to rows of the store. `pipeline` is the place to start reading."""
