"""What the services take and return; the API documents the same values as its schemas."""
