"""From candidates to a context: packing, expansion, duplicates and table headers."""
