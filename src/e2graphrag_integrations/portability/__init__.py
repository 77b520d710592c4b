"""Export, import, verification and statistics of an index."""
