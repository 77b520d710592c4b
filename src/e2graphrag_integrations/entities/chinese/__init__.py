"""Names and terms in Chinese texts."""
