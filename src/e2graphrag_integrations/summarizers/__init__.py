"""From texts to summaries."""
