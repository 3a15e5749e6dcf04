"""Scripts run manually: `python -m scripts.NAME`."""
