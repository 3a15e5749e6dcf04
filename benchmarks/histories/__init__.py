"""Records the histories that `palimpsest eval` replays: `python -m benchmarks.histories` makes them anew.

What the model says is a script, written here; everything else is real: the server, the loop, the tools and their
outputs in a bubblewrap sandbox, and the history that comes of it.
"""
