"""Languages: their codes and scripts, and the language of a text."""
