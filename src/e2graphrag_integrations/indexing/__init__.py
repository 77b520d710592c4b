"""The write path: from documents to rows of the store."""
