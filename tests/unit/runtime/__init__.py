"""The runtime by itself, without a server around it."""
