"""The documents of LlamaIndex and LangChain in an index: grouped into texts, stored, and built."""
