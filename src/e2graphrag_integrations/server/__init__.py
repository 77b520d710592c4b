"""Servers for an index: the Model Context Protocol, for agents."""
