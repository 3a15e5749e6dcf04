"""The HTTP door, against an in-memory service."""
