"""Entity extraction, normalization of names, and entity linking."""
