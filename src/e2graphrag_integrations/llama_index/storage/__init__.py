"""Storage of an index in LlamaIndex's docstore, vector store and index store."""
