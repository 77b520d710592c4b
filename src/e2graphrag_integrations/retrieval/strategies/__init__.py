"""The strategies: which lists find the nodes for a question, and how they are combined."""
