"""The routes, related resources in one file."""
