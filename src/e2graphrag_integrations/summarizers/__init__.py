"""Summarizers: language models, plain functions, and LexRank."""
