"""Names in texts: extraction, normal forms, and linking to the graph."""
