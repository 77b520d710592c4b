"""Small helpers with no knowledge of retrieval."""
