"""The HTTP API: turns requests into calls of the runtime's services, and their values and errors into responses."""
