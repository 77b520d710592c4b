"""Matching names of the index with words of a text, in any spelling."""
