"""The parts of `make bench-postgres`; see `run.py`."""
