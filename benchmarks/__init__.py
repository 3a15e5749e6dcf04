"""Measures the service against the goals in `docs/performance.md`. Start with `python -m benchmarks --help`."""
