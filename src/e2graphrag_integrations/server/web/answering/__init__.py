"""Answers: a language model writes them from the hits of a question, only when it is asked to."""
