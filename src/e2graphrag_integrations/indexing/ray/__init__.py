"""Stages on the workers of a Ray cluster (extra `ray`)."""
