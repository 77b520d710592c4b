"""The command line, `e2graphrag`, on typer and rich; nothing else in the package imports them."""
