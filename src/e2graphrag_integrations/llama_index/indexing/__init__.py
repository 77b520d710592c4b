"""The write path of the LlamaIndex index."""
