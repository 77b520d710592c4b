"""The commands, one function each; each function's docstring is its command's help text."""
