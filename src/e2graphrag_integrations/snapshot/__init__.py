"""The search index: immutable, memory-mapped arrays that are derived from the store."""
