"""Ranking through names: seeds of a question, bridges, title links, paths and codes."""
