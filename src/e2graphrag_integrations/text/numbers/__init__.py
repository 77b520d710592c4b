"""Numbers, dates and measures in several notations and languages."""
