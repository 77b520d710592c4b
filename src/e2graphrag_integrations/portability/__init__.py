"""Exporting, importing and verifying an index, and its statistics."""
