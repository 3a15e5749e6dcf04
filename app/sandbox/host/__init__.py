"""Sandboxes on this host: bubblewrap, or no isolation where the operator says so explicitly."""
