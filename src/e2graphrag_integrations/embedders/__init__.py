"""Embedders, windows for long texts, and component fingerprints."""
