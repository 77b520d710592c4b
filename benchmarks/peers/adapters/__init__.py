"""Adapters: one module per peer, run in the peer's own environment."""
