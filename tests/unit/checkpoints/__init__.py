"""Checkpoints of workspaces."""
