"""Entities for readers: their evidence, edits, paths and communities."""
