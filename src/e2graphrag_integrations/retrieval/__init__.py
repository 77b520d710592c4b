"""Retrieval: from a question to ranked nodes with sources, reasons and a context."""
