"""Threads, processes and event loops."""
