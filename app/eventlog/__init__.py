"""The event log of each session and its live readers."""
