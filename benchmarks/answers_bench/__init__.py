"""The modules of `benchmarks/answers.py`."""
