"""Tools for agents over an index, for MCP, LangChain and LlamaIndex."""
