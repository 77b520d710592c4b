"""The index file: one SQLite database that is the source of truth for everything else."""
