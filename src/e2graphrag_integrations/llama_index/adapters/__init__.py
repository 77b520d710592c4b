"""Adapters that give LlamaIndex's models the protocols of the core."""
