"""Measures the service against the goals in `docs/performance.md`. Run `python -m benchmarks --help`."""
