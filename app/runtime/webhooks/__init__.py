"""Webhooks: events of the log are sent to receivers, at least once and in order for each session."""
