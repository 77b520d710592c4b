"""The index file: one SQLite database, from which everything else is derived."""
