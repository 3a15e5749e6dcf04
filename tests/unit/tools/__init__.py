"""The tools, by values and against a real directory with real processes."""
