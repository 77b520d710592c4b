"""Preparing the next state for questions in a process of its own."""
