"""Views of an index as plain values, for the page, the JSON API and the report."""
