"""What the commands print, one module per group; `terminal` does the printing."""
