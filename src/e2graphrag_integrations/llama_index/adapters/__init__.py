"""LlamaIndex models behind the core's protocols."""
