"""What the layout of a text says: lines, rows, headings, and noise between them."""
