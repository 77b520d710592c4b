"""Splitting of texts into tokens, words, sentences and chunks."""
