"""Filters on metadata, compiled and applied before ranking."""
