"""The stages of indexing: what each makes, and how it is cached."""
