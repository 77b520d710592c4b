"""One module a peer: how its index is built and asked, run inside the peer's own environment."""
