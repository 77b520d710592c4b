"""From files to documents, for the command line."""
