"""The search index: arrays derived from the store, immutable and memory-mapped."""
