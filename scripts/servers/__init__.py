"""Postgres, Temporal and Redis as processes on this machine, from what is installed: for `scripts.cluster`, and for the
tests."""
