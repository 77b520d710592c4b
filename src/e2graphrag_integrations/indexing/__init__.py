"""Indexing: from documents to rows in the store. Start reading at `pipeline`."""
