"""The event log and what follows it."""
