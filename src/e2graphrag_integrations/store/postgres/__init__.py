"""The store in a schema of a Postgres database."""
