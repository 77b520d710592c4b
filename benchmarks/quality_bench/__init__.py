"""Parts of `benchmarks/quality.py`: data sets, systems, measures and reports."""
