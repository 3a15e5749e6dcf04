"""Checkpoints of workspaces: taken into a git repository outside of the workspace, compared, and restored."""
