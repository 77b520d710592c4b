"""The truth on disk and what is derived from it."""
