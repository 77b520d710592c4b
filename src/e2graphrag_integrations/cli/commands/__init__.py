"""The commands, one module per name at the top; a function's docstring is its command's help."""
