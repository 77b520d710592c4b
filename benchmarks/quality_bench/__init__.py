"""The parts of `benchmarks/quality.py`: corpora, systems, measures, reports."""
