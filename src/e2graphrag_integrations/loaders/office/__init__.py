"""Parts of the readers of office files: runs, equations, number formats and charts."""
