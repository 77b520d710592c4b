"""The entity graph and what is computed on it."""
