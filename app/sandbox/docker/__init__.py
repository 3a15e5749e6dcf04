"""Sandboxes in Docker: one container per session, its workspace in a volume."""
