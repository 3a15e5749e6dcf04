"""Sandboxes: a workspace for each session and the commands that run in it, isolated unless configured otherwise."""
