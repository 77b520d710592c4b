"""The `e2graphrag` command line, built with typer and rich, which only this folder imports."""
