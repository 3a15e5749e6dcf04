"""Workspaces on many machines: snapshots in a store that all machines reach, and their restoration."""
