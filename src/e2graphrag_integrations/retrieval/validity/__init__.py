"""Facts in time: what held at a date, and the newest of several versions of a document."""
